"""A metric and a reader of another package: balanced accuracy, and text with fastText labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from numpy.typing import ArrayLike

from maskwright.core.errors import InputError, RowError, RowErrors
from maskwright.tasks.evaluation.metrics import of_classes
from maskwright.text.formats.files import file_format, read_lines
from maskwright.text.readers.tables import Reader, Row, Table

MARK = "__label__"
_LINES_SEEN = 5  # to recognize a file


def is_fasttext(path: Path) -> bool:
    """Whether the first lines of a .txt file begin with a label."""
    if file_format(path, default="other") != "txt" or not path.is_file():
        return False
    first = [line.text for line in islice(read_lines(path), _LINES_SEEN) if line.fault is None and line.text.strip()]
    return bool(first) and all(text.startswith(MARK) for text in first)


def read_fasttext(path: Path | str, *, skip_bad_rows: bool = False) -> Table:
    """Reads all rows; several labels are joined with |. Raises RowErrors listing every bad line."""
    faults: list[RowError] = []
    rows = list(scan_fasttext(Path(path), {}, faults))
    if faults and not skip_bad_rows:
        raise RowErrors(faults, len(rows))
    if not rows:
        raise InputError(f"{path} contains no valid text.")
    return Table(rows, {"text": "text", "label": "label"}, faults)


def scan_fasttext(path: Path, columns: Mapping[str, str], faults: list[RowError]) -> Iterator[Row]:
    """Yields the valid rows, and adds the errors of the others."""
    for line in read_lines(path):
        words = line.text.split()
        count = next((at for at, word in enumerate(words) if not word.startswith(MARK)), len(words))
        if line.fault or not count or count == len(words):
            reason = line.fault or ("has no text" if count else f"does not begin with {MARK}")
            faults.append(RowError(str(path), line.number, None, reason))
            continue
        labels = "|".join(word.removeprefix(MARK) for word in words[:count])
        yield Row(" ".join(words[count:]), None, labels, line.number, str(path))


READER = Reader(
    "fasttext",
    "texts with fastText labels",
    "one text per line after its labels, as in __label__spam: .txt",
    "test.txt",
    recognizes=lambda path, columns: is_fasttext(path),
    read=lambda path, columns, skip_bad_rows: read_fasttext(path, skip_bad_rows=skip_bad_rows),
    scan=scan_fasttext,
    is_text=True,
    read_classes=lambda path, columns, labels, skip_bad_rows: read_fasttext(path, skip_bad_rows=skip_bad_rows),
)


@of_classes
def balanced_accuracy(gold: ArrayLike, predicted: ArrayLike) -> float:
    """The mean recall of the classes."""
    from sklearn.metrics import balanced_accuracy_score

    return float(balanced_accuracy_score(gold, predicted))
