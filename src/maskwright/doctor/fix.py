"""Writes a cleaned copy of a file; the remaining rows are copied byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..core import storage
from ..core.errors import InputError
from ..text.annotations.formats import annotation_format
from ..text.formats.files import Line, bare_suffix, read_lines
from .clinic import Diagnosis
from .tags import Tags

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
    """Yield all lines except those of removed rows; a row extends to the first line of the next row."""
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
