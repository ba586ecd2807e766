"""The recipe of recurrent translation at a tiny size: a fair comparison with pictures."""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path

import pytest

from recipe_runs import run

WORDS = {"ein": "a", "hund": "dog", "mann": "man", "frau": "woman", "sieht": "sees", "kennt": "knows", "den": "the"}


def captions(folder: Path, rows: int, seed: int) -> str:
    """Rows of the two languages as the data set has them."""
    draws = random.Random(seed)
    lines = ["de\ten"]
    for _ in range(rows):
        words = [draws.choice(list(WORDS)) for _ in range(draws.randint(2, 6))]
        lines.append(f"{' '.join(words)}\t{' '.join(WORDS[word] for word in words)}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_with_and_without_attention_are_compared_at_equal_size(tmp_path: Path):
    data = tmp_path / "shared/multi30k"
    data.mkdir(parents=True)
    (data / "train.tsv.xz").write_bytes(lzma.compress(captions(data, 1300, 1).encode()))
    (data / "dev.tsv").write_text(captions(data, 60, 2), encoding="utf-8")
    sizes = ["--epochs", 1, "--rows", 200, "--hidden", 32, "--vocab-size", 300, "--seeds", 1, "--batch-tokens", 600]
    how = [*sizes, "--score", "mlp,dot", "--device", "cpu", "-o", tmp_path / "out"]
    for _ in range(2):  # the second time everything is there
        found = run("seq2seq.py", *how, MASKWRIGHT_DATA=str(tmp_path / "shared"))
        assert found.returncode == 0, found.stderr
    assert "mlp attention" in found.stdout and "no attention" in found.stdout
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    assert list(table["runs"]) == ["mlp attention", "dot attention", "no attention"]
    one, _, other = (runs[0]["parameters"] for runs in table["runs"].values())
    assert abs(one - other) / one < 0.06  # a width of two more is much in a network so small
    logs = [tmp_path / f"out/{name}-0/seed-0/metrics.jsonl" for name in ("attention", "attention-dot", "plain")]
    assert len({log.read_text(encoding="utf-8").count("\n") for log in logs}) == 1
    for name in ("lengths.html", "alignments.html", "alignments.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
