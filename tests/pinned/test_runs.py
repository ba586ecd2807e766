"""Every kind of training leaves the same files, and the figures and answers of runs.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maskwright.nn.native import training
from pinned.runs import cases, outcome, write_data

RUNS = json.loads(Path(__file__).with_name("runs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("pinned")
    write_data(at)
    return at


def same(found: Any, expected: Any, place: str) -> None:
    """Keys, lists and texts are equal, further keys are allowed; numbers agree to 3 %."""
    if isinstance(expected, dict):
        assert expected.keys() <= found.keys(), (place, sorted(expected.keys() - found.keys()))
        for key, value in expected.items():
            same(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, value in enumerate(expected):
            same(found[number], value, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=0.03, abs=0.003), place
    elif not place.endswith(("reasons[0]", ".text", ".sequence")):  # sentences, and text of a model without training
        assert found == expected, place


@pytest.mark.xdist_group("pinned-runs")
def test_runs_leave_the_same_files_and_answers(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "missing", lambda: "dropout draws the same on every CPU by torch's operators")
    for name, commands in cases(folder).items():
        found = outcome(folder, commands)
        assert found["files"] == RUNS[name]["files"], name
        same(found["printed"], RUNS[name]["printed"], name)
