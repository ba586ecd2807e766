"""Folders that recipes make once are never taken for those of other options."""

from __future__ import annotations

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


def test_other_options_are_named(tmp_path: Path):
    from data_sets import made_once

    made_once(tmp_path / "data", {"rows": 3, "vocab_size": 80, "source": "de"}, fill)
    with pytest.raises(InputError, match="another --rows and another --vocab-size: pass another -o"):
        made_once(tmp_path / "data", {"rows": 4, "vocab_size": 90, "source": "de"}, fill)


def test_what_fails_half_way_leaves_nothing(tmp_path: Path):
    from data_sets import made_once

    def fail(folder: Path) -> None:
        fill(folder)
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        made_once(tmp_path / "data", {"rows": 3}, fail)
    assert not (tmp_path / "data").exists()
