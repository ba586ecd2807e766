"""Two line-aligned files: line n of one is the translation of line n of the other."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from ..core.errors import InputError, RowError, RowErrors
from ..core.progress import warn
from .files import read_lines
from .tables import Row, Table, shown


def read_parallel(source: Path | str, target: Path | str, *, skip_bad_rows: bool = False) -> Table:
    """Rows whose `text` is a line of `source` and whose `label` is the same line of `target`; both may be packed.

    A pair with an empty side is a bad row, and so is one that cannot be read; blank lines at the end of both files are
    none. Raises RowErrors with every bad row unless they are skipped, and InputError where one file has more lines than
    the other: from some line on all pairs would be wrong, so that is never skipped. One file on both sides is told.
    """
    if Path(source).absolute() == Path(target).absolute():
        warn(f"{source} is source and target: an autoencoder learns from that, a translator does not.")
    rows: list[Row] = []
    bad: list[RowError] = []
    blank: list[RowError] = []  # pairs without any text count only with text behind them
    first, second = shown(source), shown(target)
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            if number == 1:
                raise InputError(f"{short} is empty, and {long} is not: each line needs its translation.")
            raise InputError(
                f"{short} ends after line {number - 1:,}, and {long} goes on: its line {number:,} has no translation. "
                "Line n of one file must be the translation of line n of the other; look for a line that is missing or "
                "broken in two above it."
            )
        faults = [
            RowError(file, number, None, line.fault or "the line is empty")
            for file, line in ((first, left), (second, right))
            if line.fault or not line.text.strip()
        ]
        if len(faults) == 2 and not (left.fault or right.fault):
            blank += faults
            continue
        bad += [*blank, *faults]
        blank = []
        if not faults:
            rows.append(Row(left.text.strip(), None, right.text.strip(), number, first))
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    if not rows:
        raise InputError(f"{first} and {second} hold no pair of lines.")
    skipped = {one.line: RowError(first, one.line, one.column, one.reason) for one in bad}  # one for each pair
    return Table(rows, {"text": "line", "label": "line"}, list(skipped.values()))
