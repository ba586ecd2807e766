"""The time of each part of the encoder on a CPU, compared with plain matrix products and OpenVINO's own counters.

    python benchmarks/speed/limits.py -o runs/limits --models minilm,base

For packs of 2,048 tokens of equal length: tokens per second, as used ("tokens/s") and with torch's products instead of
layers in C++, then of the latter the fraction of each kind of operation, how fast the products compute inside the
network and alone, and the fastest product of this machine ("peak"). "rest" is embeddings, Python, copies and
allocation. OpenVINO encodes the same sequences as one batch; its layers are added up by type. Writes the table of all
that the output folder has to docs/explanation/inference-engine.md, or to --page.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "recipes")]

from cpu import cpu_name  # noqa: E402
from encoders import open_vino_request  # noqa: E402
from run import CALIBRATION, calibration_texts, model_folder, read_texts  # noqa: E402
from tables import commit, table, version, write_part  # noqa: E402

import maskwright as mw  # noqa: E402
from maskwright.core.progress import note  # noqa: E402
from maskwright.core.storage import write_json  # noqa: E402
from maskwright.data.batch import Batch  # noqa: E402
from maskwright.inference.engine import encoder, int8, layers, operators  # noqa: E402
from maskwright.inference.engine.choice import float_kernels  # noqa: E402
from maskwright.inference.ready import calibrate, place  # noqa: E402
from maskwright.models.model import Model  # noqa: E402

TOKENS, SECONDS = 2048, 1.5
# what is timed: the owner of a function, its name there, and the part that its time belongs to
PARTS: list[tuple[Any, str, str]] = [
    (operators, "product", "products"),
    (operators, "product_and", "products"),
    (operators, "int8_product", "products"),
    (operators, "int8_product_plus", "products"),
    (operators, "int8_product_act", "products"),
    (encoder, "packed_attention", "attention"),
    (layers.Norm, "__call__", "norms"),
    (int8.Int8Product, "numbers", "quantization"),
]
# node types of OpenVINO; "Subgraph" is what it fuses, in this network the attention. All others are the rest.
OPENVINO = {"FullyConnected": "products", "FullyConnectedQuantizedLegacy": "products", "Subgraph": "attention"}


def main() -> None:
    """Measure each model, precision, number of threads and length, and write the table."""
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    saved = options.output / "limits.json"
    rows: dict[str, dict[str, Any]] = json.loads(saved.read_text(encoding="utf-8")) if saved.is_file() else {}
    for name, precision in product(options.models.split(","), options.precisions.split(",")):
        folder = model_folder(name, options.output)
        model = opened(folder, precision)
        for threads in map(int, options.threads.split(",")):
            torch.set_num_threads(threads)
            work = options.output / "converted" / name
            rival = open_vino(folder, work, precision, threads, model.config.vocab_size)
            with torch.inference_mode():
                speeds = plain_products(model)
                for length in map(int, options.lengths.split(",")):
                    place = f"{name}, {precision}, {threads} threads, {length} tokens"
                    rows[place] = {**parts_of(model, length, speeds), **rival(length)}
                    note(f"{place}: {rows[place]}")
                    write_json(saved, rows)
    head = f"{cpu_name()}, torch {version('torch')}, OpenVINO {version('openvino')}, commit {commit()}."
    write_part(options.page, "limits", [head, "", *table(rows)], "Limits")


def arguments() -> argparse.Namespace:
    """Flags; the defaults are those of the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/limits"))
    parser.add_argument("--page", type=Path, default=HERE.parents[1] / "docs" / "explanation" / "inference-engine.md")
    parser.add_argument("--models", default="minilm", help="minilm, base, mini, or model folders, separated by commas")
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--lengths", default="16,32,128,512", help="tokens of each sequence")
    return parser.parse_args()


def opened(folder: Path, precision: str) -> Model:
    """The model in a precision; int8 is calibrated."""
    model = place(mw.load(folder), "cpu", precision)
    if precision == "int8":
        calibrate(model, calibration())
    return model


def calibration() -> list[str]:
    """Texts that choose the ranges of int8."""
    return calibration_texts(read_texts(None, CALIBRATION))


def batch_of(vocab_size: int, length: int) -> Batch:
    """TOKENS tokens in sequences of `length`, drawn."""
    ids = np.random.default_rng(0).integers(5, vocab_size, (TOKENS // length, length))
    return Batch.from_sequences(list(ids))


def parts_of(model: Model, length: int, speeds: dict[str, float]) -> dict[str, Any]:
    """Tokens per second, the percentage of each part, and GFLOP/s of the products."""
    batch = batch_of(model.config.vocab_size, length)
    whole = best(lambda: model.encode(batch), SECONDS)
    model.engine._fixed.native = None
    by_products = best(lambda: model.encode(batch), SECONDS)
    spent: dict[str, float] = defaultdict(float)
    with timed(spent):
        seconds, times = time.perf_counter(), 0
        while time.perf_counter() - seconds < SECONDS:
            model.encode(batch)
            times += 1
        seconds = time.perf_counter() - seconds
    shares = {name: round(100 * spent[name] / seconds) for name in dict.fromkeys(part for *_, part in PARTS)}
    rate = operations(model) * TOKENS * times / spent["products"] / 1e9
    model.engine._fixed = None  # built again, with all that it uses
    return {
        "tokens/s": TOKENS / whole,
        "by torch's products": TOKENS / by_products,
        **{f"{name} %": share for name, share in shares.items()},
        "rest %": 100 - sum(shares.values()),
        "GFLOP/s": rate,
        **speeds,
    }


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Add the seconds of each part to `spent`."""
    before = [getattr(owner, name) for owner, name, _ in PARTS]
    for (owner, name, part), function in zip(PARTS, before, strict=True):
        setattr(owner, name, timer(function, part, spent))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(PARTS, before, strict=True):
            setattr(owner, name, function)


def timer(function: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    """The function, whose seconds are added to a part."""

    def run(*arguments: Any, **settings: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **settings)
        finally:
            spent[part] += time.perf_counter() - start

    return run


def operations(model: Model) -> int:
    """Floating-point operations of the matrix products for one token."""
    return 2 * sum(weight.numel() for weight in matrices(model)) * model.config.num_hidden_layers


def matrices(model: Model) -> list[torch.Tensor]:
    """The weights of the products of one layer."""
    return [weight for weight in model.encoder.layers[0].parameters() if weight.dim() == 2]


def product_time(model: Model, weight: torch.Tensor) -> float:
    """Seconds of x W^T by itself, for the same TOKENS rows again and again, in the precision of the model."""
    x = torch.randn(TOKENS, weight.shape[1])
    if not model.engine.int8:
        plain = float_kernels(model.compute_dtype, torch.device("cpu")).product(weight, None)
        x = x.to(model.compute_dtype)
        return best(lambda: plain(x))
    ones = torch.ones(weight.shape[1])
    quantized = int8.Int8Product(weight, None, int8.ActivationRange(-ones, ones), torch.float32)
    numbers = quantized.numbers(x)
    return best(lambda: operators.int8_product(numbers, quantized.weights, torch.float32))


def plain_products(model: Model) -> dict[str, float]:
    """GFLOP/s of the products of one layer by themselves, and of the fastest square product of this machine."""
    weights = matrices(model)
    alone = sum(weight.numel() for weight in weights) / sum(product_time(model, weight) for weight in weights)
    peak = max(size**2 / product_time(model, torch.randn(size, size)) for size in (512, 1024, 2048))
    return {"alone": 2e-9 * TOKENS * alone, "peak": 2e-9 * TOKENS * peak}


def best(call: Callable[[], Any], seconds: float = 0.4) -> float:
    """The shortest time of a call, repeated for some seconds after two to warm up."""
    call()
    call()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def open_vino(
    folder: Path, work: Path, precision: str, threads: int, vocab_size: int
) -> Callable[[int], dict[str, Any]]:
    """A function of the length: tokens per second, and the shares of its parts by its own counters, in percent."""
    work.mkdir(parents=True, exist_ok=True)
    settings = {"model": str(folder), "work": str(work), "precision": precision, "threads": threads, "max_length": 512}
    settings["calibration"] = calibration()
    request = open_vino_request(settings)

    def measured(length: int) -> dict[str, Any]:
        ids = batch_of(vocab_size, length).input_ids.numpy().reshape(-1, length)
        inputs = {0: ids, 1: np.ones_like(ids), 2: np.zeros_like(ids)}
        whole = best(lambda: request.infer(inputs), SECONDS)
        counting = open_vino_request({**settings, "counters": True})  # a new one: it averages over all its calls
        for _ in range(10):
            counting.infer(inputs)
        spent: dict[str, float] = defaultdict(float)
        for layer in counting.get_profiling_info():
            if layer.status.name == "EXECUTED":  # the others are part of one that was
                spent[OPENVINO.get(layer.node_type, "rest")] += layer.real_time.total_seconds()
        shares = {name: 100 * spent[name] / sum(spent.values()) for name in ("products", "attention", "rest")}
        return {
            "OpenVINO tokens/s": TOKENS / whole,
            **{f"its {name} %": round(share) for name, share in shares.items()},
        }

    return measured


if __name__ == "__main__":
    main()
