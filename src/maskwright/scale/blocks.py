"""The unit of work: a block of consecutive rows of one file, read by the worker that computes it.

A block of a Parquet file is one or more row groups; a block of a .jsonl file is a range of bytes and has the lines that
begin in it. Blocks depend only on the file, so a rerun finds the finished ones.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import InputError
from ..core.object_store import file_system
from ..text.formats.records import parse_object
from .paths import RowFile

BLOCK_ROWS = 65_536
BLOCK_BYTES = 32 << 20
_BATCH_ROWS = 1024


@dataclass(frozen=True)
class Block:
    """Rows of a file. start, stop: row groups of a Parquet file, bytes of a .jsonl file (stop None: to the end);
    first: the number of the first row in a Parquet file.
    """

    uri: str
    kind: str
    start: int
    stop: int | None
    first: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class NamedRow:
    """A row by column. position: its number in a Parquet file, its first byte in a .jsonl file; fault: why it cannot be
    used.
    """

    position: int
    values: dict[str, Any]
    fault: str | None = None

    def place(self, block: Block) -> tuple[str, int]:
        """The file and the row (from 1), or the byte, for an error."""
        return (block.uri, self.position + 1) if block.kind == "parquet" else (f"{block.uri}, byte", self.position)


def blocks_of(file: RowFile) -> list[Block]:
    """The blocks of a file. Raises InputError for a damaged one."""
    if file.kind == "jsonl":
        if file.is_packed:
            return [Block(file.uri, file.kind, 0, None)]
        starts = range(0, max(file.size, 1), BLOCK_BYTES)
        return [Block(file.uri, file.kind, start, min(start + BLOCK_BYTES, file.size)) for start in starts]
    with _parquet(file.uri) as opened:
        metadata = opened.metadata
        found, start, first, rows = [], 0, 0, 0
        for group in range(metadata.num_row_groups):
            rows += metadata.row_group(group).num_rows
            if rows >= BLOCK_ROWS or group == metadata.num_row_groups - 1:
                found.append(Block(file.uri, file.kind, start, group + 1, first))
                start, first, rows = group + 1, first + rows, 0
    return found


def read_block(block: Block, columns: list[str]) -> Iterator[NamedRow]:
    """The rows of a block, in order. columns: those that are needed. Raises InputError for a damaged file."""
    return _parquet_rows(block, columns) if block.kind == "parquet" else _json_rows(block)


def _parquet_rows(block: Block, columns: list[str]) -> Iterator[NamedRow]:
    with _parquet(block.uri) as opened:
        missing = [name for name in columns if name not in opened.schema_arrow.names]
        if missing:
            known = ", ".join(opened.schema_arrow.names)
            raise InputError(f"{block.uri} has no column '{missing[0]}'; it has {known}.")
        row = block.first
        groups = list(range(block.start, block.stop or 0))
        for batch in opened.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(dict.fromkeys(columns))):
            for values in batch.to_pylist():
                yield NamedRow(row, values)
                row += 1


def _json_rows(block: Block) -> Iterator[NamedRow]:
    system, path = file_system(block.uri)
    if block.stop is None:
        lines, position = io.BufferedReader(system.open_input_stream(path, compression="detect")), 0
    else:
        lines = io.BufferedReader(system.open_input_file(path), 1 << 20)
        position = block.start
        if position:  # the line that begins before this block belongs to the one before
            lines.seek(position - 1)
            position += len(lines.readline()) - 1
    with lines:
        while block.stop is None or position < block.stop:
            line = lines.readline()
            if not line:
                return
            if line.strip():
                yield _json_row(line, position)
            position += len(line)


def _json_row(line: bytes, position: int) -> NamedRow:
    try:
        values, fault = parse_object(line.decode("utf-8"))
    except UnicodeDecodeError:
        return NamedRow(position, {}, "is not UTF-8")
    return NamedRow(position, values, fault)


def _parquet(uri: str) -> Any:
    import pyarrow
    from pyarrow import parquet

    system, path = file_system(uri)
    try:
        return parquet.ParquetFile(system.open_input_file(path))
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{uri} is not a readable Parquet file: {str(error).splitlines()[0]}") from None
