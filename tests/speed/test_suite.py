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
def run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "speed"))
    return importlib.import_module("run")


def test_rates_ratios_and_reasons_stand_in_tables_and_the_rest_of_the_page_stays(run, tmp_path: Path):
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE))
    rates = {"transformers": [90, 100, 110], "maskwright-bf16": [450, 500, 600]}
    (tmp_path / "natural.json").write_text(json.dumps(bulk(rates)))
    rows = {"a": {"rates": [10.0], "median": 10.0, "memory": 3e8}}
    settings = {"mini-8k": {"commit": "def5678", "rows": rows, "missing": {"b": "it broke"}}}
    (tmp_path / "pretraining.json").write_text(json.dumps({"part": "pretraining", "settings": settings}))
    page = tmp_path / "page.md"
    page.write_text("# Benchmarks\n\nBefore.\n")
    run.write_page(tmp_path, page)
    text = page.read_text()
    assert "| maskwright-bf16 | 500 | 5.00 | 10 | 500,000,000 | 0.9900 | 0.9800 |" in text and "Some CPU" in text
    assert "Not measured: openvino" in text and "Not measured: b: it broke" in text
    assert "### pretraining, mini-8k, commit def5678" in text
    page.write_text(text + "\nAfter.\n")
    run.write_page(tmp_path, page)
    again = page.read_text()
    assert again.startswith("# Benchmarks\n\nBefore.") and again.endswith("After.\n") and again.count("begin -->") == 1


def test_training_keeps_each_setting_when_it_is_measured_and_goes_on_with_those_that_are_missing(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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


def test_a_sample_for_slow_peers_pads_as_all_texts_do(run):
    sample = run.sample
    lengths = np.random.default_rng(0).permutation(np.repeat(np.arange(10, 110), 32))

    def padded(rows: np.ndarray) -> float:
        batches = np.sort(lengths[rows]).reshape(-1, 32)
        return float((batches.max(axis=1) * 32).sum() / batches.sum())

    rows = sample(lengths, 320, 32)
    assert len(set(rows.tolist())) == 320 and (np.diff(rows) > 0).all()
    assert padded(rows) == padded(np.arange(len(lengths))) == 1.0
    assert abs(lengths[rows].mean() - lengths.mean()) < 1
    assert padded(np.arange(320)) > 1.05  # the first ones pad more than all do


def test_texts_of_requests_have_one_word_more_each_and_those_of_calibration_mixed_lengths(run):
    words = [str(number) for number in range(100)]
    texts = list(run.of_words([" ".join(words[:50]), " ".join(words[50:])]))
    assert [text.split() for text in texts[:3]] == [["0"], ["1", "2"], ["3", "4", "5"]]
    assert [len(text.split()) for text in texts] == list(range(1, 14))
    mixed = run.calibration_texts([" ".join(words)] * 40)
    assert {len(text.split()) for text in mixed} == {*range(1, 9), 100}
