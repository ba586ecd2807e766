"""The data for JoeyNMT: its tokens are those of the product, and its translations become text again."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError
from maskwright.text.tokenizers.tokenizer import Tokenizer


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the recipe."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    return import_module("seq2seq_joeynmt")


def test_tokens_become_text_again(recipe: Any, tmp_path: Path):
    lines = ["Ein Hund läuft im Park.", "zwei  Männer, 3 Frauen", "日本 – x"]
    (tmp_path / "data").mkdir()
    for part in ("train", "held", "dev"):
        for language in ("de", "en"):
            (tmp_path / f"data/{part}.{language}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.train([str(tmp_path / "data/train.de.txt")], kind="byte-bpe", vocab_size=300)
    recipe.write_tokens(tmp_path, {"source": "de"}, tokenizer)
    known = (tmp_path / "joeynmt-data/vocabulary.txt").read_text(encoding="utf-8").split("\n")
    written = (tmp_path / "joeynmt-data/dev.de").read_text(encoding="utf-8").splitlines()
    assert {word for line in written for word in line.split(" ")} <= set(known) and len(known) == len(set(known))
    assert [recipe.text_of(line, tokenizer) for line in written] == lines
    assert not {str(tokenizer.id_to_token(number)) for number in tokenizer.special_ids} & set(known)


def test_a_failure_of_the_other_program_is_a_sentence(recipe: Any):
    with pytest.raises(InputError, match=r"have JoeyNMT 2\.3"):
        recipe.run_theirs("no-such-python", "-m", "joeynmt")
