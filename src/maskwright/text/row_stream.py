"""The texts of a file as a stream: checked as a whole first, then read again, so that none is held in memory.

A file is read twice: the first pass counts the rows and finds every bad one before any work is done on the others, the
second gives them. What can be read only once (standard input, a pipe) is given as it comes, and its bad rows are raised
when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..core.errors import InputError, RowError, RowErrors
from .files import STDIN, file_format
from .tables import HeaderGuess, Row, read_table, scan_texts, shown


class RowStream:
    """Rows without labels, or with the labels that a table has; an iteration reads the file anew.

    num_rows: how many good rows there are, None where only the end of the input tells; num_skipped: bad rows left out,
    known with num_rows or after an iteration. Raises, when it is made or while it is read, what `read_texts` raises.
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
            # The columns of a table are known after one pass: rows from a pipe have to be kept for that.
            table = read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
            self._held, self.num_rows, self.num_skipped = table.rows, len(table), table.num_skipped

    def __iter__(self) -> Iterator[Row]:
        return iter(self._held) if self._held is not None else self._read()

    def _read(self) -> Iterator[Row]:
        """One pass. After a bad row nothing more is given, unless such are left out, and the end raises them all."""
        faults: list[RowError] = []
        found, rows = scan_texts(self.path, self.columns, faults)
        guess = HeaderGuess(found)
        count = 0
        for row in rows:
            guess.see(row)
            count += 1
            if not faults or self.skip_bad_rows:
                yield row
        if faults and not self.skip_bad_rows:
            raise RowErrors(faults)
        self.num_skipped = len({(fault.file, fault.line) for fault in faults})
        if not count:
            raise InputError(f"{shown(self.path)} holds no {'good ' if faults else ''}text.")
        guess.refuse_header(self.path)
