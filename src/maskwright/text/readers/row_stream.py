"""Streams the texts of a file after validating it, so that it is never held in memory.

A file is read twice: the first pass counts rows and finds every bad row before any work is done, the second yields
rows. Input that can only be read once (standard input, a pipe) is streamed directly, and its bad rows are raised at the
end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ...core.errors import InputError, RowError, RowErrors
from ..formats.files import STDIN, file_format
from .tables import HeaderDetector, Row, read_table, scan_texts, shown


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
            self.num_rows = sum(1 for _ in self._read())
        elif file_format(path, default="txt") != "txt":
            # The columns of a table are known after one pass, so rows from a pipe have to be kept.
            table = read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
            self._held, self.num_rows, self.num_skipped = table.rows, len(table), table.num_skipped

    def __iter__(self) -> Iterator[Row]:
        return iter(self._held) if self._held is not None else self._read()

    def _read(self) -> Iterator[Row]:
        """Yields one pass. After a bad row nothing more is yielded unless bad rows are skipped; the end raises them."""
        faults: list[RowError] = []
        found, rows = scan_texts(self.path, self.columns, faults)
        guess = HeaderDetector(found)
        count = 0
        for row in rows:
            guess.see(row)
            count += 1
            if not faults or self.skip_bad_rows:
                yield row
        if faults and not self.skip_bad_rows:
            raise RowErrors(faults, count)
        self.num_skipped = len({(fault.file, fault.line) for fault in faults})
        if not count:
            raise InputError(f"{shown(self.path)} contains no {'valid ' if faults else ''}text.")
        guess.reject_header(self.path)
