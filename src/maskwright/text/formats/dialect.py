"""Which delimiter a table of lines has, and whether its tab-separated fields are quoted.

Both are found in a bounded number of lines and said in one sentence, because a file name only suggests them:
spreadsheets of many countries write .csv with semicolons, and pandas and spreadsheets quote the fields of .tsv, where
the files of GLUE hold quotes that are text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .files import Line

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
_SAID_FIRST = re.compile(r'"?sep=(.)"?[,;\t]*\s*', re.IGNORECASE)
LINES_SEEN = 200
_CHARACTERS_SEEN = 1 << 18
_STEADY = 0.95  # share of rows with as many columns as the first
_TIGHT = 0.9  # share of delimiters that nobody writes in prose
_WRAPPED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[-+.\d,eE]*")


@dataclass
class Dialect:
    """How a file is written, known once its rows are read.

    delimiter: of columns; is_quoted: a field may be quoted, with doubled quotes and line breaks; remarks: sentences
    about what was detected, to be said once per file.
    """

    delimiter: str = ","
    is_quoted: bool = True
    remarks: list[str] = field(default_factory=list)


def first_lines(lines: Iterator[Line]) -> list[Line]:
    """Takes a bounded number of lines."""
    taken, size = [], 0
    for line in islice(lines, LINES_SEEN):
        taken.append(line)
        size += len(line.text)
        if size > _CHARACTERS_SEEN:
            break
    return taken


def said_delimiter(line: str) -> str | None:
    """Returns the delimiter that a first line `sep=;` names, as Excel writes and reads it; None for any other line."""
    match = _SAID_FIRST.fullmatch(line.lstrip("\ufeff"))
    return match[1] if match is not None and match[1] in DELIMITERS else None


def find_delimiter(lines: Sequence[str], own: str, known_names: frozenset[str]) -> str:
    """Returns the delimiter of a table: `own`, that of its file name, unless another one is evident.

    It is evident if it makes a recognized name of a cell of the first row, or if it gives all rows the same number of
    columns and is not followed by spaces (as in prose), while `own` does not or is. A bar, which also joins labels,
    needs both: a recognized name, and the same number of columns in every row.
    """
    marks = [own, *(mark for mark in DELIMITERS if mark != own)]
    rows = {mark: _cells(lines, mark) for mark in marks}
    for mark, found in rows.items():
        first = [cell.strip().casefold() for cell in found[0]] if found else []
        is_equal = mark != "|" or {len(row) for row in found} == {len(first)}
        if (len(first) > 1 or mark == own) and is_equal and known_names.intersection(first):
            return mark
    others = [
        mark for mark in marks[1:] if mark != "|" and _is_steady(rows[mark]) and _tightness(lines, mark) >= _TIGHT
    ]
    if not others or (_is_steady(rows[own]) and (own == "\t" or _tightness(lines, own) > 0.5)):
        return own
    return others[0]


def _cells(lines: Sequence[str], mark: str) -> list[list[str]]:
    if mark == "\t":
        return [line.split("\t") for line in lines if line.strip()]
    found = []
    limit = csv.field_size_limit(1 << 24)  # the limit is global, so it is restored
    try:
        found = [row for row in csv.reader((f"{line}\n" for line in lines), delimiter=mark) if row]
    except csv.Error:  # a lone carriage return, which the reader of the rows reports
        pass
    finally:
        csv.field_size_limit(limit)
    return found


def _is_steady(rows: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all rows have as many columns as the first, and more than one."""
    widths = [len(row) for row in rows]
    return bool(widths) and widths[0] > 1 and widths.count(widths[0]) >= _STEADY * len(widths)


def _tightness(lines: Sequence[str], mark: str) -> float:
    """Share of delimiters that are followed by no space, and do not separate the digits of a number."""
    count = loose = 0
    for line in lines:
        count += line.count(mark)
        loose += line.count(f"{mark} ") + (len(re.findall(r"\d,\d", line)) if mark == "," else 0)
    return 1 - loose / count if count else 0.0


def is_quoted(lines: Sequence[str], width: int) -> bool:
    """Whether the tab-separated fields of lines, the first of which has a quote, are quoted.

    A program that quotes a field doubles the quotes in it, and quotes every field that has a quote, a tab or a line
    break; so one field that breaks this rule shows that quotes are text. width: columns of the lines before, 0 if none.
    """
    reader = csv.reader((f"{line}\n" for line in lines), delimiter="\t", strict=True)
    can_be_all, is_telling, num_rows, start = width == 0, False, 0, 0  # of all lines, with the header
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "unexpected end" not in str(error) or len(lines) < LINES_SEEN:
                return False
            row = None  # the last row continues after these lines
        if row is None:
            return is_telling or (can_be_all and num_rows > 1)
        raw, start = lines[start : reader.line_num], reader.line_num
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            return False
        num_rows += 1
        cells = raw[0].split("\t") if len(raw) == 1 else []
        if len(cells) != width:  # a quoted field contains a line break or a tab
            is_telling = True
            continue
        for cell, value in zip(cells, row, strict=True):
            if '"' in cell and not _WRAPPED.fullmatch(cell):
                return False
            is_telling = is_telling or '"' in value
            can_be_all = can_be_all and ('"' in cell or _NUMBER.fullmatch(cell) is not None)
