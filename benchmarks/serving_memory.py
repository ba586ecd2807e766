"""Measure the memory of `maskwright serve` under an hour of mixed load.

    python benchmarks/serving_memory.py --minutes 60 --rate 8 --measured "2026-11-24, 2 cores"

The built-in models are served by one process. Requests arrive at random moments: short texts, long ones, batches of 32,
classification, tags, masks, rerank and similarity, and some that must be rejected. Every minute the script
samples the resident memory; at the end it compares the count of /metrics with its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "loads"), str(HERE.parent / "recipes"), str(HERE.parent / "src")]

from load import Request, open_loop, percentile, post  # noqa: E402
from servers import Server, running  # noqa: E402

from maskwright.core.storage import write_json  # noqa: E402
from maskwright.speed.bench import built_in_texts  # noqa: E402

SLICE_SECONDS = 60.0
WARM_UP = 0.1  # share of the time that is ignored: weights are packed and buffers grow
MODELS = ("english", "english-spam", "english-entailment", "english-pos", "english-names", "english-intents")


def main() -> None:
    """Serve, send, watch, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE / "loads" / "hour.json")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second")
    parser.add_argument("--measured", default="", help="when and on what, for the page of benchmarks/serving.py")
    parser.add_argument("--port", type=int, default=8432)
    options = parser.parse_args()
    command = [sys.executable, "-m", "maskwright", "serve", *MODELS, "--port", "{port}", "--no-access-log"]
    server = Server("maskwright", "/embed", "/ready", tuple(command))
    statuses: Counter[tuple[str, int]] = Counter()
    times: list[float] = []
    samples: list[tuple[float, float]] = []
    requests = mixed(random.Random(0))
    with running(server, Path(), options.port) as found:
        began = time.monotonic()
        for number in range(max(2, round(options.minutes * 60 / SLICE_SECONDS))):
            load = open_loop(options.port, requests, options.rate, SLICE_SECONDS, seed=number)
            statuses.update((one.kind, one.status) for one in load.outcomes)
            times += [one.seconds for one in load.outcomes if one.status == 200]
            samples.append((time.monotonic() - began, found.resident_bytes() / 1e6))
            if number % 10 == 0:
                print(
                    f"{samples[-1][0] / 60:.0f} minutes, {sum(statuses.values()):,} requests, {samples[-1][1]:,.0f} MB"
                )
        counted = server_count(options.port)
    kinds = {f"{kind} {status}": number for (kind, status), number in sorted(statuses.items())}
    figures = {"p50_ms": percentile(times, 50), "p99_ms": percentile(times, 99), "counted_by_server": counted}
    measured = {"measured": options.measured, "requests": statuses.total(), "kinds": kinds}
    result = {**measured, **figures, **memory_growth(samples)}
    write_json(options.output, result)
    print(
        f"{result['requests']:,} requests in {result['minutes']:.0f} minutes (the server counted {counted:,.0f}), p50 "
        f"{result['p50_ms']} ms, p99 {result['p99_ms']} ms: {result['first_mb']:,.0f} MB after the warm-up, "
        f"{result['last_mb']:,.0f} MB at the end, {result['most_mb']:,.0f} MB at most; "
        f"{result['growth_mb_an_hour']:+.1f} MB an hour."
    )
    print("  ".join(f"{name}: {number:,}" for name, number in kinds.items()))


def mixed(rng: random.Random) -> Iterator[Request]:
    """Requests of all kinds, without end."""
    sentences = built_in_texts(5000)
    long_text = " ".join(sentences[:60])[:2000]
    while True:
        some = [sentences[rng.randrange(len(sentences))] for _ in range(32)]
        text = some[0]
        yield rng.choice(
            [
                post("/embed", {"inputs": text}, "short"),
                post("/embed", {"inputs": text}, "short"),
                post("/embed", {"inputs": text}, "short"),
                post("/embed", {"inputs": long_text[rng.randrange(200) :]}, "long"),
                post("/v1/embeddings", {"model": "english", "input": some[:8]}, "batch"),
                post("/models/english-spam/predict", {"inputs": text}, "classes"),
                post("/models/english-intents/predict", {"inputs": text}, "classes"),
                post("/models/english-pos/tag", {"inputs": text}, "tags"),
                post("/models/english-names/tag", {"inputs": text}, "tags"),
                post("/fill-mask", {"inputs": f"{text[:80]} [MASK]"}, "masks"),
                post("/similarity", {"inputs": {"source_sentence": text, "sentences": some[1:5]}}, "similarity"),
                post("/tokenize", {"inputs": text}, "tokens"),
                post("/embed", {"inputs": [1, None]}, "invalid"),
                post("/models/none/embed", {"inputs": text}, "unknown model"),
            ]
        )


def server_count(port: int) -> float:
    """The number of requests with a body that /metrics reports."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    counted = [line for line in lines if line.startswith("maskwright_requests_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in counted if "/ready" not in line and "/metrics" not in line)


def memory_growth(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """Fit a line to the samples after the warm-up.

    Args:
        samples: Seconds since the start and resident MB.

    Returns:
        minutes; first_mb, last_mb and most_mb after the warm-up; growth_mb_an_hour, the slope; and the samples.
    """
    end = samples[-1][0]
    seconds, memory = np.array([one for one in samples if one[0] >= WARM_UP * end]).T
    return {
        "minutes": float(seconds[-1] / 60),
        "first_mb": float(memory[0]),
        "last_mb": float(memory[-1]),
        "most_mb": float(memory.max()),
        "growth_mb_an_hour": float(np.polyfit(seconds / 3600, memory, 1)[0]),
        "samples": samples,
    }


if __name__ == "__main__":
    main()
