"""Bulk inference: blocks of rows of many files, each computed by a worker with the engine of `embed` or `predict`.

A block of a Parquet file is one or more row groups; a block of a .jsonl file is a range of bytes and has the lines that
begin in it. Blocks depend only on the file, so a rerun finds the finished ones.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import __version__
from ..core import storage
from ..core.errors import InputError, MissingFileError, RowError, RowErrors
from ..core.object_store import file_system, storage_errors
from ..hub.download import find_folder
from ..text.formats.cells import read_text
from ..text.formats.records import parse_object
from ..text.readers.tables import Row
from .parts import Worker, Workers, complete, part_name, sha256, write, write_stream

MANIFEST = "_manifest.json"
ROWS = {".parquet": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".jsonl.zst": "jsonl"}
BLOCK_ROWS = 65_536
BLOCK_BYTES = 32 << 20
MAX_ROWS_KEPT = 1000  # bad rows of a block that are reported
_BATCH_ROWS = 1024
_WRITTEN_ROWS = 4096


@dataclass(frozen=True)
class RowFile:
    """An input file. uri: as it was named; size: bytes; kind: "parquet" or "jsonl"."""

    uri: str
    size: int
    kind: str

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed as a whole, so that it can only be read from the beginning."""
        return self.uri.endswith((".gz", ".zst"))


def row_files(names: Sequence[str]) -> list[RowFile]:
    """The files that are named: themselves, those in a folder, or those that match a pattern such as data/*.parquet.

    They are in the given order, those of a folder or pattern by name. Raises InputError for another kind of file, and
    MissingFileError where nothing is found.
    """
    found = []
    for name in names:
        with storage_errors(name):
            found += _expanded(name)
    if not found:
        raise MissingFileError(f"{', '.join(names)} has no .parquet and no .jsonl files.")
    return found


def _expanded(name: str) -> list[RowFile]:
    from pyarrow import fs

    system, path = file_system(name)
    folder, _, pattern = path.rpartition("/")
    is_pattern = any(mark in pattern for mark in "*?[")
    start = name if not is_pattern else name.rpartition("/")[0] or "."
    if not is_pattern:
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            if (kind := _kind(name)) is None:
                raise InputError(f"{name} is neither a .parquet nor a .jsonl file: convert it to one of these.")
            return [RowFile(name, info.size or 0, kind)]
        if info.type == fs.FileType.NotFound:
            raise MissingFileError(f"{name} does not exist.")
        folder, pattern = path, "*"
    infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return [
        RowFile(f"{start.rstrip('/')}/{one.base_name}", one.size or 0, kind)
        for one in sorted(infos, key=lambda one: one.base_name)
        if one.type == fs.FileType.File
        and fnmatch.fnmatchcase(one.base_name, pattern)
        and not one.base_name.startswith((".", "_"))
        and (kind := _kind(one.base_name)) is not None
    ]


def _kind(name: str) -> str | None:
    return next((kind for ending, kind in ROWS.items() if name.lower().endswith(ending)), None)


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
    if block.kind == "jsonl":
        yield from _json_rows(block)
        return
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
                try:
                    yield NamedRow(position, *parse_object(line.decode("utf-8")))
                except UnicodeDecodeError:
                    yield NamedRow(position, {}, "is not UTF-8")
            position += len(line)


def _parquet(uri: str) -> Any:
    import pyarrow
    from pyarrow import parquet

    system, path = file_system(uri)
    try:
        return parquet.ParquetFile(system.open_input_file(path))
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{uri} is not a readable Parquet file: {str(error).splitlines()[0]}") from None


# -- What a worker computes: the same engine as `maskwright embed` and `maskwright predict` --------------------------


def results_of(kind: str, model: str, **options: Any) -> Any:
    """A function from a stream of rows to their results by column, in order; rows may be read ahead.

    kind: "embed" gives "vector", float32 [size]; "predict" the fields that `maskwright predict` writes.
    """
    from ..api import open_embedder, open_predictor

    if kind == "predict":
        predictor = open_predictor(model, **options)
        return lambda rows: (answer for _, answer in predictor.stream(rows))
    encoder = open_embedder(model, **options)

    def vectors(rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        texts = (row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows)
        yield from ({"vector": vector} for _, vector in encoder.stream(texts))

    return vectors


@dataclass(frozen=True)
class Job:
    """What to compute. kind: "embed" or "predict"; model_digest: of the model's files; keep: columns that are copied;
    form: of the parts, "parquet" or "jsonl".
    """

    kind: str
    model: str
    model_digest: str
    output: str
    form: str
    column: str
    pair: str | None
    keep: tuple[str, ...]
    precision: str
    max_length: int | None
    skip_bad_rows: bool

    def part_name(self, number: int, index: int, block: Block, size: int) -> str:
        """The name of a part. number: of the file; index: of the block in it; size: of the file."""
        decisive = {**asdict(self), "output": None, "model": None, "version": __version__, "size": size}
        return part_name(f"{number:05d}-{index:05d}", {**decisive, "block": asdict(block)}, self.form)

    @property
    def columns(self) -> list[str]:
        return [self.column, *([self.pair] if self.pair else []), *self.keep]


class BlockWorker(Worker):
    """Computes blocks, with its model. threads: of this worker."""

    def __init__(self, job: dict[str, Any], device: str, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.job = Job(**{**job, "keep": tuple(job["keep"])})
        super().__init__(self.job.output)
        options = {"device": device, "precision": self.job.precision, "max_length": self.job.max_length}
        self.results = results_of(self.job.kind, self.job.model, **options)

    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        block = Block(**item["block"])
        counts = {"rows": 0, "skipped": 0}
        waiting: deque[NamedRow] = deque()  # read ahead of their results

        def read() -> Iterator[Row]:
            for named, row in self._valid(block, counts):
                waiting.append(named)
                yield row

        lines = ({**self._kept(waiting.popleft()), **values} for values in self.results(read()))
        fill = _fill_parquet if self.job.form == "parquet" else _fill_lines
        system, path = file_system(f"{self.job.output}/{name}")
        write_stream(system, path, lambda sink: fill(sink, lines))
        return {"name": name, "source": block.uri, **counts, "sha256": sha256(system, path)}

    def _kept(self, row: NamedRow) -> dict[str, Any]:
        """The columns that are copied; without any, where the row is in its file."""
        return {name: row.values.get(name) for name in self.job.keep} if self.job.keep else {"row": row.position}

    def _valid(self, block: Block, counts: dict[str, int]) -> Iterator[tuple[NamedRow, Row]]:
        """The rows with valid texts. Raises RowErrors at the end if there are others, unless they are skipped."""
        faults: list[RowError] = []
        for row in read_block(block, self.job.columns):
            column, fault, texts = None, row.fault, []
            for name in filter(None, (self.job.column, self.job.pair)):
                if fault is None:
                    text, fault = read_text(row.values.get(name))
                    column = name if fault else None
                    texts.append(text or "")
            if fault is not None:
                counts["skipped"] += 1
                if len(faults) < MAX_ROWS_KEPT:
                    faults.append(RowError(*row.place(block), column, fault))
                continue
            counts["rows"] += 1
            yield row, Row(texts[0], texts[1] if self.job.pair else None, None, row.position, block.uri)
        if faults and not self.job.skip_bad_rows:
            raise RowErrors(faults, counts["rows"])


def _fill_lines(sink: Any, lines: Iterator[dict[str, Any]]) -> None:
    for line in lines:
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in line.items()}
        sink.write((json.dumps(plain, ensure_ascii=False, default=str) + "\n").encode())


def _fill_parquet(sink: Any, lines: Iterator[dict[str, Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    writer: Any = None
    while rows := list(islice(lines, _WRITTEN_ROWS)):
        table = _table(rows)
        if writer is None:
            writer = parquet.ParquetWriter(sink, table.schema)
        writer.write_table(table.cast(writer.schema))
    if writer is None:  # no valid row
        writer = parquet.ParquetWriter(sink, pyarrow.schema([]))
    writer.close()


def _table(rows: list[dict[str, Any]]) -> Any:
    """Rows as an Arrow table: "vector" as lists of fixed size, other nested values as JSON texts."""
    import pyarrow

    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values: list[Any] = [row.get(name) for row in rows]
        if isinstance(values[0], np.ndarray):
            flat = np.concatenate(values).astype(np.float32)
            columns[name] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), len(values[0]))
        else:
            columns[name] = pyarrow.array([json.dumps(one) if isinstance(one, (dict, list)) else one for one in values])
    return pyarrow.table(columns)


def run(job: Job, inputs: Sequence[str], workers: int | None, device: str) -> dict[str, Any]:
    """Compute all parts of a job that are missing. Returns the manifest.

    inputs: files, folders and patterns. workers: None for one per GPU, or per machine without GPUs. Raises RunError
    when the output folder has results of other inputs or settings.
    """
    chosen = Workers(
        BlockWorker, lambda device, threads: {"job": asdict(job), "device": device, "threads": threads}, workers, device
    )
    parts = complete(job.output, _items(job, row_files(inputs)), chosen.compute)
    manifest = {
        "job": asdict(job),
        "rows": sum(part["rows"] for part in parts),
        "skipped": sum(part["skipped"] for part in parts),
        "parts": parts,
    }
    write(f"{job.output}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
    return manifest


def digest_of_model(name: str) -> str:
    """A digest of the files of a model folder."""
    folder = find_folder(name)[0]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    listed = [(str(path.relative_to(folder)), storage.sha256(path)) for path in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def _items(job: Job, files: Sequence[RowFile]) -> dict[str, dict[str, Any]]:
    found = {}
    for number, file in enumerate(files):
        for index, block in enumerate(blocks_of(file)):
            name = job.part_name(number, index, block, file.size)
            found[name] = {"name": name, "uri": block.uri, "block": asdict(block)}
    return found
