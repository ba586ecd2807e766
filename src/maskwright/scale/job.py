"""A bulk inference, and what a worker does with one block: read, compute, write a part, note that it is done.

Parts are named by input file, block and a digest of everything that decides their content. A part is finished when its
note in `_done/` exists; whoever computes it again writes the same rows.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import __version__
from ..core.errors import InputError, MissingFileError, RowError, RowErrors
from ..text.formats.cells import read_text
from ..text.readers.tables import Row
from .blocks import Block, NamedRow, read_block
from .engines import ENGINES, Engine
from .paths import file_system, sha256, write, write_stream

DONE = "_done"
ATTEMPTS, PAUSE_SECONDS = 4, 2.0  # of a block whose reading or writing fails, as on a busy object store
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


def note_of(job: Job, name: str) -> str:
    """Where the note is that a part is finished."""
    return f"{job.output}/{DONE}/{name}.json"


class BlockWorker:
    """Computes blocks; made once in each worker process, with its model. threads: of this worker."""

    def __init__(self, job: dict[str, Any], device: str, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.job = Job(**{**job, "keep": tuple(job["keep"])})
        make = ENGINES[self.job.kind]
        self.engine: Engine = make(self.job.model, device, self.job.precision, self.job.max_length)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Ray Data's function of a batch: blocks as JSON in the column "item"; facts as JSON in "facts"."""
        return {"facts": np.array([json.dumps(self.compute(json.loads(item))) for item in batch["item"]], dtype=object)}

    def compute(self, item: dict[str, Any]) -> dict[str, Any]:
        """Compute one block. Returns its facts, or its bad rows ("bad_rows"), or why it failed ("error")."""
        name, block = item["name"], Block(**item["block"])
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._part(name, block)
            except RowErrors as error:
                return {"name": name, "bad_rows": [asdict(row) for row in error.rows], "rows": error.num_good}
            except (InputError, MissingFileError) as error:
                return {"name": name, "error": str(error)}
            except OSError as error:
                if attempt == ATTEMPTS:
                    return {"name": name, "error": f"{block.uri} failed {ATTEMPTS} times: {error}"}
                time.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("every attempt returns or fails")

    def _part(self, name: str, block: Block) -> dict[str, Any]:
        counts = {"rows": 0, "skipped": 0}
        found = self.engine.results(self._valid(block, counts))
        lines = ({**self._kept(row), **values} for row, values in found)
        fill = _fill_parquet if self.job.form == "parquet" else _fill_lines
        system, path = file_system(f"{self.job.output}/{name}")
        write_stream(system, path, lambda sink: fill(sink, lines))
        facts = {"name": name, "source": block.uri, **counts, "sha256": sha256(system, path)}
        write(note_of(self.job, name), json.dumps(facts).encode())
        return facts

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


def raise_errors(facts: Iterable[dict[str, Any]]) -> None:
    """Raise RowErrors for all bad rows, or InputError for failed blocks; nothing if there are none."""
    facts = list(facts)
    if failed := [one["error"] for one in facts if "error" in one]:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise InputError(f"{failed[0]}{more}")
    if bad := [RowError(**row) for one in facts for row in one.get("bad_rows", ())]:
        raise RowErrors(bad, sum(one["rows"] for one in facts))
