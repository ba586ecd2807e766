"""The page of the long benchmark, of results that are made up: tables, ratios, reasons, and what stays around them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY

MACHINE = {
    "facts": {"python": "3.11.7", "instruction_sets": ["avx2", "avx512_bf16"]},
    "processor": "A Processor",
    "commit": "abc1234",
    "versions": {"torch": "2.13.0", "openvino": None},
    "options": {"rounds": 3, "threads": 2, "batch": 32},
}


def bulk(rates: dict[str, list[float]]) -> dict:
    return {
        "part": "natural",
        "model": "minilm",
        "texts": 10,
        "mean_tokens": 31.2,
        "longest": 60,
        "missing": {"openvino": "No module named 'openvino'"},
        "cosines": {name: {"mean": 0.99, "min": 0.98} for name in rates},
        "rows": {
            name: {"rates": own, "median": sorted(own)[len(own) // 2], "count": 10, "memory": 5e8}
            for name, own in rates.items()
        },
    }


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "speed"))
    return importlib.import_module("page")


def written(page, folder: Path, parts: list[dict]) -> str:
    output = folder / "run"
    output.mkdir(exist_ok=True)
    (output / "machine.json").write_text(json.dumps(MACHINE))
    for part in parts:
        (output / f"{part['part']}.json").write_text(json.dumps(part))
    target = folder / "benchmarks.md"
    page.write_page(output, target)
    return target.read_text()


def test_rates_ratios_and_reasons_stand_in_the_table(page, tmp_path: Path):
    rates = {"transformers": [90, 100, 110], "transformers-bf16": [400, 300, 200], "maskwright-bf16": [450, 500, 600]}
    text = written(page, tmp_path, [bulk(rates)])
    assert "| maskwright bf16 | 500 | 450 to 600 | 5.00 | 1.67 | 0.9900 / 0.9800 | 500 MB | 10 |" in text
    assert "Not measured: OpenVINO fp32: No module named 'openvino'" in text
    assert "A Processor, 2 threads" in text and "Missing: openvino" in text and "abc1234" in text
    picture = (tmp_path / "images" / "speed-minilm-natural.svg").read_text()
    assert picture.startswith("<svg") and "maskwright bf16" in picture and "#1565c0" in picture


def test_latency_and_training_have_tables_of_their_own(page, tmp_path: Path):
    waits = {"32": {"p50": 0.004, "p95": 0.005}, "128": {"p50": 0.01, "p95": 0.02}}
    half = {size: {"p50": found["p50"] / 2, "p95": found["p95"]} for size, found in waits.items()}
    latency = {
        "part": "latency",
        "model": "minilm",
        "missing": {},
        "rows": {"transformers": waits, "maskwright-fp32": half},
    }
    training = {
        "part": "pretraining",
        "settings": {"mini-8k": {"rows": {"a": {"rates": [10.0], "median": 10.0}}, "missing": {"b": "it broke"}}},
    }
    text = written(page, tmp_path, [latency, training])
    assert "| maskwright fp32 | 2.00 | 5.00 | 0.50 | 5.00 | 20.00 | 0.50 |" in text
    assert "| a | 10 | 10 to 10 | 1.00 |" in text and "Not measured: b: it broke" in text


def test_the_rest_of_the_page_stays_and_writing_again_changes_nothing(page, tmp_path: Path):
    (tmp_path / "benchmarks.md").write_text("# Benchmarks\n\nBefore.\n")
    parts = [bulk({"transformers": [1.0, 2.0, 3.0]})]
    first = written(page, tmp_path, parts)
    (tmp_path / "benchmarks.md").write_text(first + "\nAfter.\n")
    again = written(page, tmp_path, parts)
    assert again.startswith("# Benchmarks\n\nBefore.\n") and again.count(page.BEGIN) == 1
    assert again.endswith("After.\n") and written(page, tmp_path, parts) == again


def test_every_contender_has_a_format_and_a_title(page):
    encoders = importlib.import_module("encoders")
    for opener, settings, title in encoders.CONTENDERS.values():
        assert callable(opener) and settings["precision"] in page.PRECISIONS and title
    assert encoders.REFERENCE in encoders.CONTENDERS and page.FIRST in encoders.CONTENDERS
