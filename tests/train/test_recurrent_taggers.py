"""Taggers and classifiers on recurrent networks: pieces, characters, chains of tags, folders."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import maskwright as mw
from maskwright.core.errors import InputError
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "hidden_dropout": 0.1}


def sentences(path: Path, rows: int, seed: int) -> Path:
    """Sentences in which every word that ends in -berg is a place, most of them seen once."""
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(rows):
        for _ in range(rng.randint(2, 5)):
            is_place = rng.random() < 0.4
            stem = "".join(rng.choices("abcdefgh", k=rng.randint(2, 5)))
            lines.append(
                f"{stem}{'berg' if is_place else rng.choice(['ing', 'ly', 's'])}\t{'B-LOC' if is_place else 'O'}"
            )
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def tagger(folder: Path, kind: str, **changes) -> FinetuneConfig:
    train, dev = sentences(folder / "train.conll", 150, 1), sentences(folder / "dev.conll", 50, 2)
    words = [line.split("\t")[0] for line in train.read_text().splitlines() if line]
    Tokenizer.train_from_iterator(words, kind=kind, vocab_size=200).save(folder / "tok")
    settings = {"task": "tagging", "train": train, "dev": dev, "output": folder / "run", "tokenizer": folder / "tok"}
    settings |= {"preset": "bilstm-small", "network": SMALL, "epochs": 6, "lr": 1e-2, "batch_size": 16}
    return FinetuneConfig(**{**settings, "precision": "fp32", **changes})


@pytest.mark.parametrize("crf", [False, True])
def test_characters_know_words_that_were_never_seen(crf: bool, tmp_path: Path):
    result = finetune(tagger(tmp_path, "char", preset="bilstm-char-small", crf=crf))
    assert result.mean["entity_f1"] > 0.9
    loaded = mw.TokenTagger.load(result.model)
    assert loaded.predict([["fedhagberg", "fedhaging"]]) == [["B-LOC", "O"]]


def test_pieces_of_words_do_too_and_whole_words_do_not(tmp_path: Path):
    (tmp_path / "p").mkdir()
    (tmp_path / "w").mkdir()
    pieces = finetune(tagger(tmp_path / "p", "wordpiece")).mean["entity_f1"]
    words = finetune(tagger(tmp_path / "w", "word")).mean["entity_f1"]
    assert pieces > 0.7 and pieces > words


def test_a_network_of_characters_wants_characters(tmp_path: Path):
    with pytest.raises(InputError, match="--kind char"):
        finetune(tagger(tmp_path, "wordpiece", preset="bilstm-char-small"))
