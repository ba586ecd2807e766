"""Measure how much of the time of one request is spent outside the layers of the network.

    python benchmarks/latency.py --threads 1
    python benchmarks/latency.py --models english,runs/a/model --precisions fp32 --requests 1000

`Embedder.transform` on one text, from text to vector, alternates with the encoder alone (embeddings and layers) on the
same tokens in the same process. Prints medians in milliseconds; the difference is tokenizing, packing, checks and
pooling. `benchmarks/speed/run.py --parts latency` compares whole requests with other backends.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "speed"), str(HERE.parent / "recipes")]

from run import calibration_texts, minilm, read_texts  # noqa: E402

import maskwright as mw  # noqa: E402
from maskwright.core.progress import set_quiet  # noqa: E402
from maskwright.core.util import usable_cores  # noqa: E402
from maskwright.data.batch import Batch  # noqa: E402
from maskwright.speed.bench import text_of_length  # noqa: E402

WARM_UP = 30
COUNT = 500  # texts that requests and calibration texts are made of


def main() -> None:
    """Measure every combination; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="minilm,english", help="minilm, or what Embedder takes")
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--tokens", default="31,122")
    parser.add_argument("--texts", type=Path, help="one text per line; default as of benchmarks/speed/run.py")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--threads", type=int, default=usable_cores())
    options = parser.parse_args()
    set_quiet(True)
    torch.set_num_threads(options.threads)
    texts = read_texts(options.texts, COUNT)
    print("| model | precision | tokens | request, ms | layers, ms | outside, ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name in options.models.split(","):
        for precision in options.precisions.split(","):
            model = str(minilm()) if name == "minilm" else name
            embedder = mw.Embedder(model, precision=precision, device="cpu").fit(calibration_texts(texts))
            for length in map(int, options.tokens.split(",")):
                text = text_of_length(embedder.encoder_.tokenizer, texts, length)
                whole, layers = measure(embedder, text, options.requests)
                row = f"{1000 * whole:.3f} | {1000 * layers:.3f} | {1000 * (whole - layers):.3f}"
                print(f"| {name} | {precision} | {length} | {row} |", flush=True)


def measure(embedder: mw.Embedder, text: str, count: int) -> tuple[float, float]:
    """Median seconds of `count` requests, and of the encoder alone on the same tokens."""
    encoder = embedder.encoder_
    batch = Batch.from_sequences(encoder.tokenizer.encode_ids([text])[0])
    whole: list[float] = []
    layers: list[float] = []
    with torch.inference_mode():
        for number in range(WARM_UP + count):
            started = time.perf_counter()
            embedder.transform([text])
            between = time.perf_counter()
            encoder.model.engine._fixed(batch)
            ended = time.perf_counter()
            if number >= WARM_UP:
                whole.append(between - started)
                layers.append(ended - between)
    return median(whole), median(layers)


if __name__ == "__main__":
    main()
