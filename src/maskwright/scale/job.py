"""A bulk inference, and what a worker does with one block: read, compute, write a part.

Parts are named by input file, block and a digest of everything that decides their content.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import __version__
from ..core import storage
from ..core.errors import RowError, RowErrors
from ..core.object_store import file_system
from ..hub.download import find_folder
from ..text.formats.cells import read_text
from ..text.readers.tables import Row
from .blocks import Block, NamedRow, blocks_of, read_block
from .parts import Worker, complete
from .paths import RowFile, row_files, sha256, write, write_stream
from .session import Workers

# -- What a worker computes for a block: the same engine as `maskwright embed` and `maskwright predict` --------------


class Engine(ABC):
    """Computes results for a stream of rows with valid texts, in order, and in bounded memory."""

    @abstractmethod
    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        """Loads the model."""

    @abstractmethod
    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """The results of each row by column, in order; rows may be read ahead, by another thread."""

    def results(self, rows: Iterable[tuple[NamedRow, Row]]) -> Iterator[tuple[NamedRow, dict[str, Any]]]:
        """Each row with its results by column."""
        waiting: deque[NamedRow] = deque()

        def read() -> Iterator[Row]:
            for named, row in rows:
                waiting.append(named)
                yield row

        for found in self.stream(read()):
            yield waiting.popleft(), found


class EmbeddingEngine(Engine):
    """Sentence embeddings: "vector", float32 [size]."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_embedder

        self.encoder = open_embedder(model, device=device, precision=precision, max_length=max_length)

    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """See Engine."""
        texts = (row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows)
        yield from ({"vector": vector} for _, vector in self.encoder.stream(texts))


class PredictionEngine(Engine):
    """Answers of a fine-tuned model: the fields that `maskwright predict` writes."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_predictor

        self.predictor = open_predictor(model, device=device, precision=precision, max_length=max_length)

    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """See Engine."""
        yield from (answer for _, answer in self.predictor.stream(rows))


ENGINES: dict[str, type[Engine]] = {
    "embed": EmbeddingEngine,
    "predict": PredictionEngine,
}


MAX_ROWS_KEPT = 1000  # bad rows of a block that are reported
_WRITTEN_ROWS = 4096


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
        text = json.dumps([decisive, block.to_dict()], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"part-{number:05d}-{index:05d}-{digest}.{self.form}"

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.column, *([self.pair] if self.pair else []), *self.keep]


class BlockWorker(Worker):
    """Computes blocks, with its model. threads: of this worker."""

    def __init__(self, job: dict[str, Any], device: str, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.job = Job(**{**job, "keep": tuple(job["keep"])})
        super().__init__(self.job.output)
        make = ENGINES[self.job.kind]
        self.engine: Engine = make(self.job.model, device, self.job.precision, self.job.max_length)

    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        """See Worker."""
        block = Block(**item["block"])
        counts = {"rows": 0, "skipped": 0}
        found = self.engine.results(self._valid(block, counts))
        lines = ({**self._kept(row), **values} for row, values in found)
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


# -- The driver of a bulk inference: plan blocks, let Ray Data compute the missing ones, write the manifest last -----


MANIFEST = "_manifest.json"


def run(job: Job, inputs: Sequence[str], workers: int | None, device: str) -> dict[str, Any]:
    """Compute all parts of a job that are missing. Returns the manifest.

    inputs: files, folders and patterns. workers: None for one per GPU, or per machine without GPUs. Raises RunError
    when the output folder has results of other inputs or settings.
    """
    chosen = Workers(
        BlockWorker,
        lambda device, threads: {"job": asdict(job), "device": device, "threads": threads},
        workers,
        device,
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
    """See parts.Items."""
    found = {}
    for number, file in enumerate(files):
        for index, block in enumerate(blocks_of(file)):
            name = job.part_name(number, index, block, file.size)
            found[name] = {"name": name, "uri": block.uri, "block": block.to_dict()}
    return found
