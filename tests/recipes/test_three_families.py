"""The recipe of the three families at a tiny size: each is compared with the unigram model on its own scored tokens."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from recipe_runs import run


@pytest.mark.slow
def test_each_is_compared_with_the_unigram_model_on_the_tokens_that_it_is_scored_on(tmp_path: Path):
    draws = random.Random(0)
    words = {"red": "fox", "old": "dog", "big": "cat", "shy": "owl"}  # the second word follows from the first
    lines = (" ".join(f"{first} {words[first]}" for first in draws.choices(list(words), k=8)) for _ in range(600))
    (tmp_path / "text.txt").write_text("\n\n".join(lines), encoding="utf-8")
    sizes = ["--steps", 60, "--batch-tokens", 256, "--max-length", 24, "--hidden", 32, "--vocab-size", 60, "--lr", 5e-3]
    how = [tmp_path / "text.txt", *sizes, "--text", "red fox old dog shy owl", "-o", tmp_path / "out"]
    found = run("three_families.py", *how)
    assert found.returncode == 0, found.stderr
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    for name, objective in (("encoder", "mlm"), ("decoder", "clm"), ("encoder-decoder", "denoise")):
        (one,) = table[name]
        scores = json.loads((tmp_path / f"out/{name}-0/result.json").read_text(encoding="utf-8"))["scores"]
        assert one["scored_loss"] == scores[f"{objective}_scored_loss"]  # not the loss that also counts special tokens
        assert abs(one["gain"] - (one["baseline_loss"] - one["scored_loss"])) < 1e-9
    # Only the sentinels and the end of the text are easy for the encoder-decoder, and they are not scored.
    assert scores["denoise_loss"] < one["scored_loss"]
    assert table["decoder"][0]["gain"] > 0.2  # every second word follows from the one before
    assert found.stdout.count("->") == 3 and "| most common token |" in found.stdout
