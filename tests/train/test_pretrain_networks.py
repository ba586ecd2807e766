"""Runs of networks that are not BERT's: chosen by settings, kept in the folder, continued exactly, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import maskwright as mw
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import TINY, continues_exactly, pretraining

SPARSE = {"attention": "big_bird", "block_size": 4, "random_blocks": 1, "positions": "relative_key_value"}
RUNS: dict[str, dict[str, Any]] = {
    "mlm": SPARSE,
    "mlm+nsp": {"positions": "sinusoidal"},
    "mlm+sop": {"positions": "none", "attention": "window", "window_size": 8},
    "rtd": {"positions": "rotary", "norm": "pre", "gated": True},
}


def configured(folder: Path, objective: str, **changes: Any) -> Any:
    return pretraining(folder, objective=objective, steps=4, model=TINY | RUNS[objective], **changes)


@pytest.mark.parametrize("objective", RUNS)
def test_the_folder_keeps_the_network(objective: str, tmp_path: Path):
    result = pretrain(configured(tmp_path, objective))
    config = mw.load(result.model).config
    assert {name: getattr(config, name) for name in RUNS[objective]} == RUNS[objective]
    page = result.report.read_text(encoding="utf-8")
    assert ("Attention pattern" in page) == ("attention" in RUNS[objective])
    assert all(f"{name}={str(value).lower()}" in page for name, value in RUNS[objective].items())


def test_random_blocks_are_draws_of_the_run_and_an_interruption_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = configured(tmp_path, "mlm", seed=5)
    continues_exactly(pretrain, config, monkeypatch)
    assert mw.load(config.output / "model").config.attention_seed == 5
    given = configured(tmp_path, "mlm", output=tmp_path / "given")
    given.model["attention_seed"] = 9
    assert mw.load(pretrain(given).model).config.attention_seed == 9
