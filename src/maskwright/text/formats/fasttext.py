"""Reads the training files of fastText: a text per line, with its labels as words that begin with `__label__`.

As fastText reads them, a label may stand anywhere in the line, and a line may have several.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ...core.errors import RowError
from .files import STDIN, file_format, read_lines
from .records import Record

MARK = "__label__"
COLUMNS = ("text", "label")
_LINES_SEEN = 20


def is_fasttext(path: Path | str) -> bool:
    """Whether a file without the name of a table has such lines: one of the first, and each of them a label."""
    if str(path) == STDIN or not Path(path).is_file() or file_format(path, default="txt") != "txt":
        return False
    lines = [line.text for line in islice(read_lines(path), _LINES_SEEN) if line.text.strip()]
    return bool(lines) and lines[0].lstrip().startswith(MARK) and all(MARK in line for line in lines)


def read_fasttext(path: Path | str) -> Iterator[Record]:
    """Yields each line as {"text", "label": its labels}; blank lines are skipped."""
    for line in read_lines(path):
        if line.fault:
            yield Record(str(path), line.number, faults=(RowError(str(path), line.number, None, line.fault),))
        elif line.text.strip():
            labels, text = split_line(line.text)
            yield Record(str(path), line.number, named={"text": text, "label": labels or None})


def split_line(line: str) -> tuple[list[str], str]:
    """Returns the labels of a line, and its text without them; the spaces within the text stay."""
    labels, rest = [], line.strip()
    while rest.startswith(MARK):
        word = rest.split(None, 1)
        labels.append(word[0].removeprefix(MARK))
        rest = word[1] if len(word) > 1 else ""
    if MARK in rest:
        words = rest.split()
        labels += [word.removeprefix(MARK) for word in words if word.startswith(MARK)]
        rest = " ".join(word for word in words if not word.startswith(MARK))
    return labels, rest
