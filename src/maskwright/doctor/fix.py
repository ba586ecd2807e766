"""Writes a cleaned copy of a file; the remaining rows are copied byte for byte."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.errors import InputError
from ..text.annotations.reader import annotation_format
from ..text.formats.cells import LABEL_SEPARATOR, number_error
from ..text.formats.files import MAX_LINE_BYTES, Line, bare_suffix, file_format, read_lines
from ..text.formats.records import MARK, Dialect, is_fasttext, parse_object, read_records, split_line
from ..text.readers.tables import scan_texts
from ..text.readers.tagged import tag_column
from .checks import Tags
from .clinic import Diagnosis

# -- Changes labels in a file; everything else is copied byte for byte -----------------------------------------------

MOST_BYTES = 1 << 30
Place = tuple[int, int | None]  # line from 1; word from 0 in a sentence of JSON lines, else None


def relabel(path: Path, columns: Mapping[str, str], labels: Mapping[Place, str]) -> bytes:
    """Returns the content of a labeled file with other labels.

    columns: column mapping of the readers; labels: the new ones; in CoNLL columns the line is that of the word. Raises
    InputError for a format without lines, and for a line without a label.
    """
    if bare_suffix(path) == ".json" or annotation_format(path) is not None:
        raise InputError(f"Labels of {path.name} cannot be changed: write one JSON object per line to .jsonl.")
    kind = file_format(path, default="conll")
    if kind == "parquet":
        raise InputError("Labels of a Parquet file cannot be changed: convert it to .jsonl first.")
    lines = storage.read_bytes(path, MOST_BYTES).decode("utf-8", "surrogateescape").split("\n")
    if is_fasttext(path):
        kind = "fasttext"
    is_tagged = kind in ("conll", "txt", "fasttext") or any(word is not None for _, word in labels)
    column = None if is_tagged else _label_column(path, columns)
    dialect = Dialect()
    if kind in ("csv", "tsv"):
        deque(read_records(path, kind, dialect=dialect), maxlen=0)  # known after the last row
    place = tag_column(path, columns) if kind in ("conll", "txt") else -1
    removed: set[int] = set()
    for (line, word), label in sorted(labels.items()):
        if not 1 <= line <= len(lines):
            raise InputError(f"The file has no line {line}.")
        text, end = re.fullmatch(r"(.*?)(\r?)", lines[line - 1], re.DOTALL).groups()  # type: ignore[union-attr]  # matches any text
        if kind == "fasttext":
            marks = " ".join(MARK + one for one in label.split(LABEL_SEPARATOR) if one)
            lines[line - 1] = f"{marks} {split_line(text)[1]}" + end
        elif kind in ("conll", "txt"):
            lines[line - 1] = _tag_replaced(text, place, label) + end
        elif kind == "jsonl":
            key = columns.get("tag", "tags") if column is None else column[0]
            lines[line - 1] = _json_replaced(text, key, word, label) + end
        elif not dialect.is_quoted:
            assert column is not None
            cells = text.split("\t")
            lines[line - 1] = "\t".join([*cells[: column[1]], label, *cells[column[1] + 1 :]]) + end
        else:
            assert column is not None
            cells, count = _csv_row(lines, line, dialect.delimiter)
            last = line + count - 2  # index of its last line
            written = io.StringIO()
            writer = csv.writer(written, delimiter=dialect.delimiter, lineterminator="\r\n")  # it quotes these two
            writer.writerow([*cells[: column[1]], label, *cells[column[1] + 1 :]])
            lines[last] = written.getvalue().removesuffix("\r\n") + ("\r" if lines[last].endswith("\r") else "")
            removed |= set(range(line - 1, last))
    kept = [text for index, text in enumerate(lines) if index not in removed]
    return "\n".join(kept).encode("utf-8", "surrogateescape")


def _label_column(path: Path, columns: Mapping[str, str]) -> tuple[str, int]:
    """Returns the name of the label column, and its position from 0 (-1 for named cells)."""
    found, _ = scan_texts(path, columns, [])
    name = found.names.get("label")
    if name is None:
        raise InputError("The file has no column for the label.")
    return name, found.header.index(name) if name in found.header else -1


def _tag_replaced(text: str, place: int, tag: str) -> str:
    parts = text.split("\t") if "\t" in text else re.split(r"(\s+)", text)
    cells = range(0, len(parts), 1 if "\t" in text else 2)
    parts[cells[place]] = tag
    return ("\t" if "\t" in text else "").join(parts)


def _json_replaced(text: str, key: str, word: int | None, label: str) -> str:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    row, fault = parse_object(text.removeprefix(mark))
    if fault is not None:
        raise InputError(f"A line to change is {fault}.")
    if word is not None:
        row[key] = [*row[key][:word], label, *row[key][word + 1 :]]
    else:
        row[key] = _like(row.get(key), label)
    return mark + json.dumps(row, ensure_ascii=False)


def _like(old: Any, label: str) -> Any:
    if isinstance(old, list):
        return [one for one in label.split("|") if one]
    if not isinstance(old, (int, float)) or isinstance(old, bool):
        return label
    if number_error(label) is not None:
        raise InputError(f"'{label}' is not a number, as the labels of this file are.")
    return int(label) if label.lstrip("-").isdecimal() else float(label)


def _csv_row(lines: list[str], first: int, delimiter: str) -> tuple[list[str], int]:
    """Returns the cells of the row that begins in line `first`, and the number of its lines."""
    reader = csv.reader((f"{line}\n" for line in lines[first - 1 :]), strict=True, delimiter=delimiter)
    limit = csv.field_size_limit(MAX_LINE_BYTES)  # a global of the module
    try:
        cells = next(reader)
    except csv.Error as error:
        raise InputError(f"Line {first} cannot be changed: {error}.") from None
    finally:
        csv.field_size_limit(limit)
    return cells, reader.line_num


_COPIED = (".tsv", ".csv", ".jsonl", ".ndjson", ".txt")


def check_fix(train: Path, output: Path) -> None:
    """Raise InputError unless `train` can be copied line by line to `output`."""
    kind = bare_suffix(train)
    if kind in (".json", ".parquet") or annotation_format(train) is not None:
        raise InputError(f"--fix requires a line-based file, and {train} is not one: convert it to .jsonl first.")
    if output.suffix.lower() != kind:
        raise InputError(f"{output} must end in {kind}, like its source: --fix does not convert formats.")
    if output.exists() and output.samefile(train):
        raise InputError(f"{output} is the input file: choose another name for the copy.")


def write_fixed(diagnosis: Diagnosis, output: Path) -> dict[str, int]:
    """Write the training file without duplicates, leaks, conflicts and invalid rows.

    Returns the number of removed rows per kind and the number of kept rows. A row can have several kinds.
    """
    found, prints, bad = diagnosis.repeats, diagnosis.train.prints, set(diagnosis.train.faults.lines)
    removed = set(prints.line[found.removable].tolist()) | bad
    lines = read_lines(diagnosis.train.file)
    if isinstance(diagnosis.train.kind, Tags) and bare_suffix(diagnosis.train.file) not in _COPIED:
        kept = _without_blocks(lines, removed)
    else:
        kept = _without_rows(lines, removed, {*prints.line.tolist(), *bad})
    with storage.open_new(output) as handle:
        for line in kept:
            storage.fs.write(handle, (line.text + "\n").encode("utf-8", "surrogateescape"))
    return {
        "duplicates": len(found.duplicates),
        "conflicts": len(found.conflicts),
        "leaks": len(found.leaks),
        "bad_rows": len(bad),
        "kept": len(prints) - len(found.removable),
    }


def _without_rows(lines: Iterator[Line], removed: set[int], begins: set[int]) -> Iterator[Line]:
    is_kept = True
    for line in lines:
        if line.number in begins:
            is_kept = line.number not in removed
        if is_kept:
            yield line


def _without_blocks(lines: Iterator[Line], removed: set[int]) -> Iterator[Line]:
    """Yield all blocks between blank lines, with their comments, except those that contain a removed row.

    The first line of CoNLL-U Plus, which names the columns, is always kept.
    """
    block: list[Line] = []
    for line in lines:
        if line.number == 1 and re.match(r"#\s*global\.columns", line.text):
            yield line
            continue
        block.append(line)
        if not line.text.strip():
            yield from [] if any(one.number in removed for one in block) else block
            block = []
    yield from [] if any(one.number in removed for one in block) else block
