"""The recipe of the taggers at a size of seconds: five, with as many trained parameters."""

from __future__ import annotations

import json
import lzma
import random
from argparse import Namespace
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError
from recipe_runs import run

WORDS = {"Ann": "B-PER", "Bonn": "B-LOC", "saw": "O", "left": "O", "the": "O", "town": "O"}
SIZES = ["--epochs", 1, "--rows", 30, "--held", 10, "--hidden", 16, "--embedding", 8, "--vocab-size", 60, "--seeds", 2]


def sentences(number: int, seed: int) -> list[list[str]]:
    """Sentences of words that are tagged the same everywhere."""
    draws = random.Random(seed)
    return [draws.choices(list(WORDS), k=draws.randint(3, 7)) for _ in range(number)]


def conll(number: int, seed: int) -> str:
    """As the data set has them: token, part of speech, chunk, entity."""
    return "\n".join(
        "".join(f"{word}\tX\tX\t{WORDS[word]}\n" for word in sentence) for sentence in sentences(number, seed)
    )


def write_data(shared: Path) -> Path:
    """The files of both data sets, small."""
    for name, content in (
        ("conll2003/train.conll.xz", lzma.compress(conll(60, 1).encode())),
        ("conll2003/dev.conll", conll(20, 2).encode()),
        ("pretraining_text/reuters.txt.xz", lzma.compress("\n\n".join(map(" ".join, sentences(90, 3))).encode())),
    ):
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_bytes(content)
    return shared


def test_sentences_of_another_number_are_not_taken_for_those_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    monkeypatch.setenv("MASKWRIGHT_DATA", str(write_data(tmp_path / "shared")))
    import taggers

    chosen = Namespace(output=tmp_path / "out", rows=30, held=10, vocab_size=60)
    made = taggers.prepare(chosen)
    assert taggers.prepare(chosen) == made
    chosen.rows = 20
    with pytest.raises(InputError, match="another --rows: pass another -o"):
        taggers.prepare(chosen)


@pytest.mark.slow
def test_five_taggers_train_as_many_parameters(tmp_path: Path):
    shared = write_data(tmp_path / "shared")
    how = [*SIZES, "--pretrain-steps", 3, "--pretrain-tokens", 128, "--device", "cpu", "-o", tmp_path / "out"]
    tables = []
    for _ in range(2):  # the second time it is all there
        found = run("taggers.py", *how, MASKWRIGHT_DATA=str(shared))
        assert found.returncode == 0, found.stderr
        tables.append(json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8")))
    assert tables[0] == tables[1]
    runs = tables[0]["runs"]
    assert list(runs) == [
        "LSTM",
        "BiLSTM",
        "BiLSTM-CRF",
        "random features, BiLSTM-CRF",
        "ELMo features, BiLSTM-CRF",
    ]
    assert all([one["seed"] for one in own] == [0, 1] for own in runs.values())
    counts = [own[0]["parameters"] for own in runs.values()]
    assert max(counts) / min(counts) < 1.15  # a width of two more is much in a network so small
    held = (tmp_path / "out/data/held.conll").read_text(encoding="utf-8")
    assert held.count("\n\n") == 9
