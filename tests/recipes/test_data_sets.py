"""Folders that recipes make once are never taken for those of other options."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes can be imported."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))


def fill(folder: Path) -> None:
    """Write one file."""
    (folder / "rows.txt").write_text("a\n", encoding="utf-8")


def test_a_folder_is_made_once(tmp_path: Path):
    from data_sets import made_once

    made = made_once(tmp_path / "data", {"rows": 3, "vocab_size": None}, fill)
    (made / "rows.txt").write_text("mine\n", encoding="utf-8")
    assert made_once(tmp_path / "data", {"rows": 3, "vocab_size": None}, fill) == made
    assert (made / "rows.txt").read_text(encoding="utf-8") == "mine\n"


def test_other_options_are_named(tmp_path: Path):
    from data_sets import made_once

    made_once(tmp_path / "data", {"rows": 3, "vocab_size": 80, "source": "de"}, fill)
    with pytest.raises(InputError, match="another --rows and another --vocab-size: pass another -o"):
        made_once(tmp_path / "data", {"rows": 4, "vocab_size": 90, "source": "de"}, fill)


def test_a_folder_that_does_not_say_is_refused(tmp_path: Path):
    from data_sets import made_once

    (tmp_path / "data").mkdir()
    with pytest.raises(InputError, match="does not record its sizes"):
        made_once(tmp_path / "data", {"rows": 3}, fill)


def test_what_fails_half_way_leaves_nothing(tmp_path: Path):
    from data_sets import made_once

    def fail(folder: Path) -> None:
        fill(folder)
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        made_once(tmp_path / "data", {"rows": 3}, fail)
    assert not (tmp_path / "data").exists()


CAPTIONS = {"de": ["ein hund läuft"] * 1100, "fr": ["un chien court"] * 1100, "en": ["a dog runs"] * 1100}


@pytest.mark.parametrize("name", ["seq2seq", "multi30k", "zero_shot", "parser"])
def test_recipes_refuse_data_of_another_size(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = import_module(name)
    if hasattr(module, "captions"):
        monkeypatch.setattr(module, "captions", lambda part: CAPTIONS)

    def prepare(size: int) -> Path:
        if name == "seq2seq":
            return module.prepare(Namespace(output=tmp_path, source="de", rows=60, vocab_size=size))
        if name == "multi30k":
            return module.prepare(tmp_path, "de", size)
        return module.prepare(tmp_path / "data", size)

    made = prepare(280)
    assert prepare(280) == made and (made / "tokenizer").is_dir()
    with pytest.raises(InputError, match=r"was created with another --(vocab-size|sentences): pass another -o"):
        prepare(290)
