"""A bulk inference, and what a worker does with one block: read, compute, write a part.

Parts are named by input file, block and a digest of everything that decides their content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import __version__
from ..core.errors import RowError, RowErrors
from ..core.object_store import file_system
from ..text.formats.cells import read_text
from ..text.readers.tables import Row
from .blocks import Block, NamedRow, read_block
from .engines import ENGINES, Engine
from .parts import Worker
from .paths import sha256, write_stream

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
