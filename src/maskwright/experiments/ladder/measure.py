"""Measures latency, throughput and memory of a model in a separate process.

python -m maskwright.experiments.ladder.measure FOLDER TEXTS DEVICE PRECISION THREADS

TEXTS is a file with a JSON list. Prints one JSON object: latency_ms (median, one text at a time), texts_per_second (all
in one call), memory_mb (peak memory minus the memory before loading the model).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.memory import peak_memory, resident_memory
from ...core.progress import set_quiet

SINGLE = 30  # texts for the latency, one at a time
LEAST_SECONDS = 0.5


def measured_apart(folder: Path, texts: Path, device: str, precision: str, threads: int) -> dict[str, float]:
    """Measure a model folder in a new process. texts: a JSON file. Raises InputError if that fails."""
    command = [sys.executable, "-m", "maskwright.experiments.ladder.measure"]
    found = subprocess.run(
        [*command, str(folder), str(texts), device, precision, str(threads)],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        output = found.stderr.strip().splitlines()[-1:] or ["no error output"]
        raise InputError(f"{folder} could not be measured: {output[0]}")
    result: dict[str, float] = json.loads(found.stdout)
    return result


def times_of(answer: Callable[[Sequence[Any]], Any], texts: Sequence[Any]) -> dict[str, float]:
    """latency_ms and texts_per_second of a prediction function."""
    single = list(texts[:SINGLE])
    answer(single[:2])
    each = []
    for text in single:
        start = time.perf_counter()
        answer([text])
        each.append(time.perf_counter() - start)
    rounds, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < LEAST_SECONDS:
        answer(texts)
        rounds += 1
    passed = time.perf_counter() - start
    return {"latency_ms": 1e3 * statistics.median(each), "texts_per_second": rounds * len(texts) / passed}


def _main(folder: str, texts: str, device: str, precision: str, threads: str) -> None:
    import torch

    from ...core import storage
    from ...hub.folders import load_model, read_facts
    from ...inference.predict import Predictor
    from ...inference.ready import place
    from ...tasks.base import task_of_model

    set_quiet(True)
    torch.set_num_threads(int(threads))
    rows = [tuple(text) if isinstance(text, list) else text for text in storage.read_json(Path(texts))]
    before = resident_memory()
    facts = read_facts(folder)
    model = place(load_model(folder)[0], device, precision)
    predictor = Predictor(model, task_of_model(model, facts))
    found = times_of(lambda part: predictor.predict(list(part)), rows)
    print(json.dumps({**found, "memory_mb": (peak_memory() - before) / (1 << 20)}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
