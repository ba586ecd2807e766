"""Runs of networks that are not BERT's: chosen by settings, kept in the folder, continued exactly, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import maskwright as mw
from maskwright.core import storage
from maskwright.train import loop
from maskwright.train.pretraining.pretrain import pretrain
from maskwright.train.signals import Interrupted, StopRequest
from train.runs import TINY, pretraining

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
    whole = pretrain(configured(tmp_path, "mlm", seed=5, output=tmp_path / "whole"))
    assert mw.load(whole.model).config.attention_seed == 5
    asked = {"left": 2}
    original = loop._stop_if_requested

    def ask_at_the_second_step(request: StopRequest, run: object, step: int, steps: int) -> None:
        asked["left"] -= 1
        request.requested = asked["left"] == 0
        original(request, run, step, steps)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "_stop_if_requested", ask_at_the_second_step)
    with pytest.raises(Interrupted):
        pretrain(configured(tmp_path, "mlm", seed=5))
    monkeypatch.setattr(loop, "_stop_if_requested", original)
    again = pretrain(configured(tmp_path, "mlm", seed=5))
    assert storage.sha256(again.model / "model.safetensors") == storage.sha256(whole.model / "model.safetensors")
    given = configured(tmp_path, "mlm", output=tmp_path / "given")
    given.model["attention_seed"] = 9
    assert mw.load(pretrain(given).model).config.attention_seed == 9
