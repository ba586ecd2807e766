"""The contract of readers: a file is recognized as theirs alone, and read and scanned alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from maskwright.core import registry
from maskwright.core.errors import RowError
from maskwright.text.readers.tables import find_reader

QUESTION = '{"id": "1", "question": "Who?", "context": "A dog.", "answers": [{"text": "dog", "answer_start": 2}]}'
FILES = {
    "questions": ("rows.jsonl", QUESTION),
    "tagged": ("rows.conll", "the O\ndog B-ANIMAL\n"),
    "trees": ("rows.txt", "(3 (2 good) (3 film))"),
    "choices": ("rows.jsonl", '{"context": "a b", "choices": ["c", "d"], "label": 0}'),
    "texts": ("rows.tsv", "text\tlabel\na good film\tx"),
}


def is_found(name: str, folder: Path) -> None:
    """The first reader that recognizes its file is this one, whose name is that of the registry."""
    found = find_reader(_file(name, folder))
    assert found is registry.resolve("reader", name) and found.name == name


def reads(name: str, folder: Path) -> None:
    """Reading and scanning give the same row, with its label."""
    path, reader = _file(name, folder), registry.resolve("reader", name)
    faults: list[RowError] = []
    table = reader.read(path, {}, False, False)
    rows = list(getattr(table, "rows", table))
    assert rows == list(reader.scan(path, {}, faults)) and len(rows) == 1 and not faults
    assert rows[0].label is not None


def _file(name: str, folder: Path) -> Path:
    path = folder / FILES[name][0]
    path.write_text(FILES[name][1] + "\n", encoding="utf-8")
    return path


READER: dict[str, Callable[[str, Path], None]] = {
    "recognition": is_found,
    "reading": reads,
}
