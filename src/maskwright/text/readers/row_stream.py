"""Streams the texts of a file after validating it, so that it is never held in memory.

A file is read twice: the first pass counts rows and finds every bad row before any work is done, the second yields
rows. Input that can only be read once (standard input, a pipe) is streamed directly, and its bad rows are raised at the
end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import note
from ..annotations.reader import CLASSES, has_annotations
from ..formats.column_names import KNOWN_NAMES
from ..formats.fasttext import is_fasttext
from ..formats.files import STDIN, file_format
from ..formats.records import read_records
from .reader import Reader
from .tables import HeaderDetector, Row, is_lines, read_table, scan_texts, shown

_ROWS_SEEN = 20  # to recognize a table


class RowStream:
    """Rows of a file, with labels if the table has them; each iteration reads the file again.

    num_rows: number of valid rows, None if unknown before the end of the input; num_skipped: skipped bad rows, known
    with num_rows or after an iteration. Construction and iteration raise the errors of `read_texts`.
    """

    def __init__(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> None:
        self.path, self.columns, self.skip_bad_rows = path, columns, skip_bad_rows
        self.num_rows: int | None = None
        self.num_skipped = 0
        self._held: list[Row] | None = None
        is_read_once = str(path) == STDIN or Path(path).is_fifo() or Path(path).is_char_device()
        if not is_read_once:
            self.num_rows = sum(1 for _ in self._read(is_first=True))
        elif not is_lines(path):
            # The columns of a table are known after one pass, so rows from a pipe have to be kept.
            table = read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
            self._held, self.num_rows, self.num_skipped = table.rows, len(table), table.num_skipped

    def __iter__(self) -> Iterator[Row]:
        return iter(self._held) if self._held is not None else self._read()

    def _read(self, is_first: bool = False) -> Iterator[Row]:
        """Yields one pass; the first says what was detected.

        After a bad row nothing more is yielded unless bad rows are skipped; the end raises them.
        """
        faults: list[RowError] = []
        found, rows = scan_texts(self.path, self.columns, faults)
        guess = HeaderDetector(found)
        count = 0
        for row in rows:
            guess.see(row)
            count += 1
            if not faults or self.skip_bad_rows:
                yield row
        if faults and not (self.skip_bad_rows and count):
            raise RowErrors(faults, count)
        self.num_skipped = len({(fault.file, fault.line) for fault in faults})
        if not count:
            raise InputError(f"{shown(self.path)} contains no text.")
        guess.reject_header(self.path)
        for remark in found.remarks if is_first else ():
            note(remark)


def is_table_of_texts(path: Path) -> bool:
    """Whether a .tsv or .csv has two known column names, or mostly several words in its first column; or a file has
    the labels of fastText.
    """
    if is_fasttext(path):
        return True
    kind = file_format(path, default="other")
    if kind not in ("csv", "tsv") or not path.is_file():
        return False
    first = [record.cells for record in islice(read_records(path, kind), _ROWS_SEEN) if record.cells]
    if not first:
        return False
    num_named = sum(cell.strip().casefold() in KNOWN_NAMES for cell in first[0])
    return num_named > 1 or 2 * sum(" " in cells[0].strip() for cells in first) > len(first)


def _scan(path: Path, columns: Mapping[str, str], faults: list[RowError]) -> Iterator[Row]:
    found, rows = scan_texts(path, columns or None, faults, need_label=has_annotations(path, CLASSES, columns))
    yield from rows
    for remark in found.remarks:
        note(remark)


READER = Reader(
    "texts",
    "a table of texts",
    "a table: .csv, .tsv, .jsonl, .json or .parquet, one text per row, or classes of an annotation tool",
    "test.tsv",
    recognizes=lambda path, columns: has_annotations(path, CLASSES, columns) or is_table_of_texts(path),
    read=lambda path, columns, skip_bad_rows: RowStream(path, columns=columns or None, skip_bad_rows=skip_bad_rows),
    scan=_scan,
    is_text=True,
)
