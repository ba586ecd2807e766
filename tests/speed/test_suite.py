"""The page of the long benchmark, of results that are made up: tables, ratios, reasons, and what stays around them."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from conventions.sources import REPOSITORY

MACHINE = {
    "facts": {"python": "3.11.7", "instruction_sets": ["avx2", "avx512_bf16"]},
    "processor": "Some CPU",
    "versions": {"torch": "2.13.0", "openvino": None},
    "options": {"rounds": 3, "threads": 2, "batch": 32},
}


def bulk(rates: dict[str, list[float]]) -> dict:
    return {
        "part": "natural",
        "model": "minilm",
        "commit": "abc1234",
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
    assert "Some CPU, 2 threads" in text and "Missing: openvino" in text and "abc1234" in text
    picture = (tmp_path / "images" / "speed-minilm-natural.svg").read_text()
    assert picture.startswith("<svg") and "maskwright bf16" in picture and "#1565c0" in picture


def test_latency_and_training_have_tables_of_their_own(page, tmp_path: Path):
    waits = {"32": {"p50": 0.004, "p99": 0.005}, "128": {"p50": 0.01, "p99": 0.02}}
    half = {size: {"p50": found["p50"] / 2, "p99": found["p99"]} for size, found in waits.items()}
    latency = {
        "part": "latency",
        "model": "minilm",
        "commit": "abc1234",
        "missing": {},
        "smallest": {"transformers": 1.0, "maskwright-fp32": 0.9999, "openvino-int8": 0.9049},
        "rows": {"transformers": waits, "maskwright-fp32": half},
    }
    training = {
        "part": "pretraining",
        "settings": {
            "mini-8k": {
                "commit": "def5678",
                "rows": {"a": {"rates": [10.0], "median": 10.0, "memory": 3e8}},
                "missing": {"b": "it broke"},
            }
        },
    }
    text = written(page, tmp_path, [latency, training])
    assert "| maskwright fp32 | 0.9999 | 2.00 | 5.00 | 0.50 | 0.50 | 5.00 | 20.00 | 0.50 | 0.50 |" in text
    assert "Not timed: OpenVINO static int8 (NNCF): its smallest cosine is 0.9049, below 0.98." in text
    assert "| a | 10 | 10 to 10 | 1.00 | 300 MB |" in text and "Not measured: b: it broke" in text
    assert "Measured at commit abc1234." in text and "mini-8k, 1 round, at commit def5678:" in text


def test_training_keeps_each_setting_when_it_is_measured_and_goes_on_with_those_that_are_missing(
    page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = importlib.import_module("run")
    held: list[str] = []

    def hold(commands: dict[str, list[str]], options: object) -> dict:
        if "break" in commands:
            raise KeyboardInterrupt
        held.extend(commands)
        return {"rows": {}, "missing": {}}

    monkeypatch.setattr(run, "hold", hold)
    monkeypatch.setattr(run, "minilm", lambda: tmp_path)
    options = argparse.Namespace(output=tmp_path)
    monkeypatch.setattr(run, "contests", lambda *_: {"first": {"a": []}, "second": {"break": []}})
    with pytest.raises(KeyboardInterrupt):
        run.measure_training("pretraining", options)
    monkeypatch.setattr(run, "contests", lambda *_: {"first": {"a": []}, "second": {"b": []}})
    run.measure_training("pretraining", options)
    found = json.loads((tmp_path / "pretraining.json").read_text())
    assert held == ["a", "b"] and list(found["settings"]) == ["first", "second"]


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
        assert callable(opener) and settings["precision"] in page.FORMATS and title
    assert encoders.REFERENCE in encoders.CONTENDERS and page.FIRST in encoders.CONTENDERS


def test_goals_are_reported_as_met_or_missed_from_the_rates_of_one_run(page, tmp_path: Path):
    rates = {"transformers": [100.0], "openvino": [250.0], "openvino-bf16": [600.0], "maskwright-fp32": [280.0]}
    text = written(page, tmp_path, [bulk({**rates, "maskwright-bf16": [500.0]})])
    assert "| minilm, in bulk, fp32: x baseline | 2.80 | at least 2.7 | met |" in text
    assert "| minilm, in bulk, fp32: x best other backend | 1.12 | at least 1.15 | missed |" in text
    assert "| minilm, in bulk, bf16: x best other backend | 0.83 | at least 1.2 | missed |" in text
    assert "in bulk, int8" not in text  # nothing was measured


def test_less_is_better_for_latency_and_memory(page, tmp_path: Path):
    def waits(p50: float) -> dict:
        return {"32": {"p50": p50, "p99": p50}}

    rows = {"transformers": waits(0.010), "maskwright-bf16": waits(0.0027), "maskwright-int8": waits(0.003)}
    rows |= {"openvino-bf16": waits(0.003), "openvino-int8": waits(0.0025)}
    shared = {"model": "minilm", "commit": "abc1234", "missing": {}, "smallest": dict.fromkeys(rows, 1.0)}
    latency = {"part": "latency", "rows": rows} | shared
    trained = {
        "transformers Trainer bf16": {"rates": [10.0], "median": 10.0, "memory": 4e9},
        "plain loop bf16, fused AdamW": {"rates": [20.0], "median": 20.0, "memory": 4e9},
        "plain loop bf16, compiled": {"rates": [17.0], "median": 17.0, "memory": 3e9},
        "maskwright bf16": {"rates": [68.0], "median": 68.0, "memory": 1e9},
    }
    training = {"part": "pretraining", "settings": {"mini-30k": {"commit": "abc1234", "rows": trained, "missing": {}}}}
    text = written(page, tmp_path, [latency, training])
    assert "32 tokens, bf16, p50: fraction of baseline | 0.27 | at most 0.28 | met |" in text
    assert "32 tokens, int8, p50: fraction of baseline | 0.30 | at most 0.24 | missed |" in text
    assert "32 tokens, bf16, p50: fraction of best other backend | 0.90 | at most 1 | met |" in text
    assert "32 tokens, int8, p50: fraction of best other backend | 1.20 | at most 1 | missed |" in text
    assert "| pre-training mini-30k: x Trainer bf16 | 6.80 | at least 6.8 | met |" in text
    assert "| pre-training mini-30k: x best other backend | 3.40 | at least 3.2 | met |" in text
    assert "memory: part of Trainer's | 0.25 | at most 0.5 | met |" in text


def test_the_share_of_plain_products_is_what_is_needed_at_the_rate_that_was_met(page, tmp_path: Path):
    trained = {"maskwright bf16": {"rates": [10_000.0], "median": 10_000.0, "memory": 1e9}}
    training = {"part": "pretraining", "settings": {"mini-8k": {"commit": "abc1234", "rows": trained, "missing": {}}}}
    shares = {
        "part": "profile",
        "commit": "abc1234",
        "paths": {"inference": {"matrix products": 0.9, "layer norm": 0.1}},
        "operations": {"mini-8k": 2e7, "base inference": 1e8},
        "ceilings": {"bf16": 4e11},
    }
    text = written(page, tmp_path, [training, shares])
    assert "| pre-training mini-8k: fraction of plain matrix products | 0.50 | at least 0.58 | missed |" in text
    assert "| matrix products | 90.0% |" in text


def test_a_sample_for_slow_peers_pads_as_all_texts_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "speed"))
    sample = importlib.import_module("run").sample
    lengths = np.random.default_rng(0).permutation(np.repeat(np.arange(10, 110), 32))

    def padded(rows: np.ndarray) -> float:
        batches = np.sort(lengths[rows]).reshape(-1, 32)
        return float((batches.max(axis=1) * 32).sum() / batches.sum())

    rows = sample(lengths, 320, 32)
    assert len(set(rows.tolist())) == 320 and (np.diff(rows) > 0).all()
    assert padded(rows) == padded(np.arange(len(lengths))) == 1.0
    assert abs(lengths[rows].mean() - lengths.mean()) < 1
    assert padded(np.arange(320)) > 1.05  # the first ones pad more than all do


def test_texts_of_requests_have_one_word_more_each_and_those_of_calibration_mixed_lengths(page):
    run = importlib.import_module("run")
    words = [str(number) for number in range(100)]
    texts = list(run.of_words([" ".join(words[:50]), " ".join(words[50:])]))
    assert [text.split() for text in texts[:3]] == [["0"], ["1", "2"], ["3", "4", "5"]]
    assert [len(text.split()) for text in texts] == list(range(1, 14))
    mixed = run.calibration_texts([" ".join(words)] * 40)
    assert {len(text.split()) for text in mixed} == {*range(1, 9), 100}
