"""Reads two line-aligned files: line n of one is the translation of line n of the other."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import warn
from ..formats.files import read_lines
from .tables import Row, Table, shown


def read_parallel(source: Path | str, target: Path | str, *, skip_bad_rows: bool = False) -> Table:
    """Read rows whose `text` is a line of `source` and whose `label` is the same line of `target`, plain or compressed.

    A pair with an empty side is a bad row; blank lines at the end of both files are ignored. Warns if both files are
    the same. Raises RowErrors with every bad row unless they are skipped, and InputError if one file has more lines
    than the other (never skipped, since all pairs from some line on would be misaligned).
    """
    if Path(source).absolute() == Path(target).absolute():
        warn(f"{source} is both source and target: this trains an autoencoder, not a translation model.")
    rows: list[Row] = []
    bad: list[RowError] = []
    blank: list[RowError] = []  # fully blank pairs are errors only if text follows
    first, second = shown(source), shown(target)
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            if number == 1:
                raise InputError(f"{short} is empty, and {long} is not: each line needs a translation.")
            raise InputError(
                f"{short} ends after line {number - 1:,}, but {long} continues: line {number:,} has no translation. "
                "Line n of one file must be the translation of line n of the other: check for a missing or split line "
                "above it."
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
        raise InputError(f"{first} and {second} contain no pair of lines.")
    skipped = {one.line: RowError(first, one.line, one.column, one.reason) for one in bad}  # one per pair
    return Table(rows, {"text": "line", "label": "line"}, list(skipped.values()))
