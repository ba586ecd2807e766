"""The recipe of GPT-2 at a tiny size: both sides get the same batches, and the same weights have the same loss."""

from __future__ import annotations

import json
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest
import torch

from conventions.sources import REPOSITORY
from maskwright.core.config import to_dict
from maskwright.hub.folders import load_model
from maskwright.train.run import open_run
from recipes.test_char_lm import speech_text


@pytest.mark.slow
def test_both_sides_learn_from_the_same_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path))
    recipe = import_module("gpt2")
    (tmp_path / "char_lm").mkdir()
    for part, speeches in (("train", 200), ("dev", 20)):
        text = speech_text(speeches, speeches)
        (tmp_path / f"char_lm/tinyshakespeare_{part}.txt").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    sizes = ["--steps", "6", "--hidden", "24", "--layers", "1", "--max-length", "32", "--batch-tokens", "256"]
    monkeypatch.setattr("sys.argv", ["", "characters", *sizes, "-o", str(out)])
    for _ in range(2):  # the second time everything is there
        recipe.main()
    table = json.loads((out / "table.json").read_text(encoding="utf-8"))
    (ours,), (theirs,) = table["maskwright"], table["transformers"]
    assert ours["parameters"] == theirs["parameters"] and 1 < theirs["plays perplexity"] < 300
    assert ours["plays loss"] != theirs["plays loss"]

    small = recipe.replace(recipe.RECIPES["characters"], dropout=0.0, hidden=24, layers=1, max_length=32)
    small = recipe.replace(small, batch_tokens=256, steps=2)
    chosen = Namespace(device="cpu", precision="fp32")
    config = recipe.config_of(small, out / "data", out / "again", 0, chosen).resolved("cpu", "fp32")
    with open_run(config.output, to_dict(config)) as run:
        setup = recipe.TheirSetup(config, run, torch.device("cpu"))
        job = setup.job()
        (batch,) = job.micro_batches(0)
        same, _ = load_model(out / "transformers-0/theirs")  # the weights of one in both networks
        job.model = type(job.model).from_pretrained(out / "transformers-0/theirs").eval()
        with torch.no_grad():
            found = job.outcome(batch)
            wanted = setup.objective.outcome(same.eval(), batch)
    assert found.counts == wanted.counts and found.counts["clm"] > 200
    assert float(found.losses["clm"]) == pytest.approx(float(wanted.losses["clm"]), rel=1e-5)
