"""The table of the fine-tuning benchmark: seeds are paired by their number, whatever the order of their files."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY


def test_seeds_that_both_sides_have_are_paired(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    benchmark = import_module("finetuning")
    scores = {seed: 0.5 + 0.01 * seed for seed in range(12)}
    (tmp_path / "rte").mkdir()
    for side, gap in (("maskwright", 0.0), ("transformers", 0.02)):
        for seed, score in scores.items():
            metrics = {"accuracy": score + gap + 0.001 * (seed % 2) * (side == "transformers")}
            if (side, seed) != ("transformers", 11):  # not finished
                facts = {"metrics": metrics, "seconds": 1 + gap * 50, "train_rows": 1000}
                benchmark.score_file(tmp_path, "rte", side, seed).write_text(json.dumps(facts), encoding="utf-8")
    row = benchmark.table({"sets": {"rte": {"metric": "accuracy"}, "cola": {"metric": "matthews"}}}, tmp_path)
    (line,) = [line for line in row.splitlines() if "rte" in line]
    # Paired by number, the differences are nearly constant; paired in the order of file names, p would be large too.
    assert line.split(" | ")[3:] == [
        "0.550 ± 0.033 (11 seeds)",
        "0.570 ± 0.033 (11 seeds)",
        "-0.020",
        "0.000",
        "2.0 x |",
    ]
    assert "cola" not in row and benchmark.paired_p([0.5], [0.6]) == "" == benchmark.paired_p([0.5, 0.6], [0.6, 0.7])
