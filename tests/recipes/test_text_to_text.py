"""The recipe of translation and summaries by a decoder, on made-up rows."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from recipe_runs import run

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.mark.slow
def test_translations_are_scored_and_compared_with_the_source(tmp_path: Path):
    rows = [f"{a} {b}\t{b} {a}\n" for a in NUMBERS for b in NUMBERS] * 10
    (tmp_path / "tatoeba_en_fr").mkdir()
    with lzma.open(tmp_path / "tatoeba_en_fr/train.tsv.xz", "wt", encoding="utf-8") as file:
        file.write("en\tfr\n" + "".join(rows))
    (tmp_path / "tatoeba_en_fr/dev.tsv").write_text("en\tfr\n" + "".join(rows[:20]), encoding="utf-8")
    sizes = ("--epochs", 1, "--hidden", 16, "--layers", 1, "--vocab-size", 300, "--device", "cpu")
    for _ in range(2):  # the second time everything is there
        done = run("text_to_text.py", "french", *sizes, "-o", tmp_path / "out", MASKWRIGHT_DATA=str(tmp_path))
        assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    assert set(table["model"]) == set(table["baseline"]) == {"bleu", "chrf"}
    assert table["baseline"]["chrf"] > 20  # the same words in another order
    assert [source.split()[::-1] for source, _, _ in table["texts"]] == [text.split() for _, text, _ in table["texts"]]


@pytest.mark.slow
def test_the_first_sentence_of_an_article_is_its_summary(tmp_path: Path):
    articles = [
        f"Town number {number} lies at a river.\nIt has {number} streets.\nIts fair is in May.\n"
        for number in range(620)
    ]
    (tmp_path / "pretraining_text").mkdir()
    with lzma.open(tmp_path / "pretraining_text/wikipedia.txt.xz", "wt", encoding="utf-8") as file:
        file.write("\n".join(articles))
    sizes = ("--epochs", 1, "--hidden", 16, "--layers", 1, "--vocab-size", 300, "--device", "cpu")
    done = run("text_to_text.py", "summary", *sizes, "-o", tmp_path / "out", MASKWRIGHT_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out/data/dev.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [
        "source\ttarget",
        "It has 0 streets. \N{PILCROW SIGN} Its fair is in May.\tTown number 0 lies at a river.",
    ]
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    assert set(table["baseline"]) == {"rouge1", "rouge2", "rougeL"} and table["baseline"]["rouge1"] < 0.5
