"""One file of a corpus as tokens: a worker writes them to a part, and the driver reads the parts in order.

A part is an Arrow stream with one record per batch of documents, so both sides need the memory of a batch only. Nothing
is dropped in a worker: whether a document is a duplicate is known only when all files before it have been read.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core import storage
from ..core.errors import InputError, RowError
from ..core.object_store import file_system
from ..data.prepare import DIGEST_BYTES, Batch, CorpusPosition, Encoded, Reader, SeenDigests, encode_batch
from ..data.shards import PlainTokenizer, token_dtype
from ..text.readers.corpus import MAX_ROWS_KEPT
from ..text.tokenizers.tokenizer import Tokenizer
from .parts import Worker
from .paths import CorpusFile, sha256, write_stream

_COLUMNS = ("tokens", "lengths", "sizes", "digests", "text_bytes")  # of a record; numbers as bytes, little-endian
_COUNT = np.dtype("<i8")
_ADDED = ("files", "file_bytes", "documents", "sentences", "characters", "cut_sentences", "cut_documents")


@dataclass(frozen=True)
class CorpusJob:
    """How files become tokens. tokenizer: its folder; output: of the parts."""

    tokenizer: str
    tokenizer_sha256: str
    output: str
    text_field: str
    split_lines: bool
    joint: str

    def part_name(self, number: int, file: CorpusFile) -> str:
        """The name of a part. number: of the file in the corpus."""
        decisive = {**asdict(self), "tokenizer": None, "output": None, "version": __version__, "file": asdict(file)}
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
        return f"part-{number:05d}-{digest}.arrow"


class FileWorker(Worker):
    """Tokenizes files; made once in each worker process."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = CorpusJob(**job)
        super().__init__(self.job.output)
        self.tokenizer = Tokenizer.load(self.job.tokenizer)

    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        """Write the part of a file. Returns its facts."""
        from pyarrow import fs

        uri = item["uri"]
        system, path = file_system(item["path"])
        with tempfile.TemporaryDirectory(prefix="maskwright-") as folder:
            local = Path(path)
            if system.type_name != "local":
                local = Path(folder, local.name)  # the name has the format
                fs.copy_files(path, str(local), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
            try:
                return self._tokenize(name, local, uri)
            except InputError as error:
                raise InputError(str(error).replace(str(local), uri)) from None

    def _tokenize(self, name: str, local: Path, uri: str) -> dict[str, Any]:
        """local: the file; uri: its name in errors."""
        import pyarrow

        dtype = token_dtype(self.tokenizer.vocab_size)
        reader = Reader([str(local)], self.job.text_field, self.job.split_lines, None)
        schema = pyarrow.schema([(column, pyarrow.large_binary()) for column in _COLUMNS])

        def fill(sink: Any) -> None:
            with pyarrow.ipc.new_stream(sink, schema) as records:
                for batch in reader.batches():
                    tokens, lengths = encode_batch(batch, self.tokenizer, self.job.joint, dtype)
                    sizes, text_bytes = (np.array(one, _COUNT).tobytes() for one in (batch.sizes, batch.text_bytes))
                    values = (tokens.tobytes(), lengths.astype(_COUNT).tobytes(), sizes, b"".join(batch.digests))
                    rows = [pyarrow.array([one], pyarrow.large_binary()) for one in (*values, text_bytes)]
                    records.write_batch(pyarrow.record_batch(rows, schema=schema))

        system, path = file_system(f"{self.job.output}/{name}")
        write_stream(system, path, fill)
        facts = replace(reader.facts, bad_rows=[replace(row, file=uri) for row in reader.facts.bad_rows])
        source = {"name": uri, "bytes": local.stat().st_size, "sha256": storage.sha256(local)}
        return {"name": name, "source": source, "facts": asdict(facts), "sha256": sha256(system, path)}


class PartReader(Reader):
    """Reads the documents of finished parts, in order. parts: what the workers noted."""

    def __init__(self, output: str, parts: Sequence[dict[str, Any]], seen: SeenDigests | None) -> None:
        super().__init__([part["source"]["name"] for part in parts], "", False, seen)
        self.output, self.parts = output, parts

    def stored(self, dtype: np.dtype) -> Iterator[Encoded]:
        """The documents from the start on, without duplicates, with their tokens of this type."""
        for number in range(self.start.file, len(self.parts)):
            before, index = self.facts.copy(), 0
            skipped = self.start.document if number == self.start.file else 0
            for batch, tokens, lengths in self._records(self.parts[number]["name"], dtype):
                batch.places = [CorpusPosition(number, index + one + 1, before) for one in range(len(batch.sizes))]
                index += len(batch.sizes)
                if index > skipped:
                    yield from self._new(*_after(batch, tokens, lengths, skipped - index + len(batch.sizes)))
            self._add(self.parts[number]["facts"])

    def _records(self, name: str, dtype: np.dtype) -> Iterator[Encoded]:
        import pyarrow

        system, path = file_system(f"{self.output}/{name}")
        with system.open_input_stream(path) as source, pyarrow.ipc.open_stream(source) as records:
            for record in records:
                tokens, lengths, sizes, digests, text_bytes = (column[0].as_py() for column in record.columns)
                batch = Batch(
                    sizes=np.frombuffer(sizes, _COUNT).tolist(),
                    digests=[digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)],
                    text_bytes=np.frombuffer(text_bytes, _COUNT).tolist(),
                )
                yield batch, np.frombuffer(tokens, dtype), np.frombuffer(lengths, _COUNT)

    def _new(self, found: Batch, tokens: np.ndarray, lengths: np.ndarray) -> Iterator[Encoded]:
        """The documents of a batch that are no duplicates, if there are any."""
        batch, fresh = self.only_new(found)
        if not batch.places:
            return
        if not all(fresh):
            is_new = np.repeat(fresh, found.sizes)  # of each sentence
            tokens, lengths = tokens[np.repeat(is_new, lengths)], lengths[is_new]
        yield batch, tokens, lengths

    def _add(self, counts: dict[str, Any]) -> None:
        """Count a whole file."""
        for name in _ADDED:
            setattr(self.facts, name, getattr(self.facts, name) + counts[name])
        self.facts.skipped_rows += counts["skipped_rows"]
        room = MAX_ROWS_KEPT - len(self.facts.bad_rows)
        self.facts.bad_rows += [RowError(**row) for row in counts["bad_rows"][:room]]


def _after(batch: Batch, tokens: np.ndarray, lengths: np.ndarray, skipped: int) -> Encoded:
    """A batch of a part without its first documents."""
    if skipped <= 0:
        return batch, tokens, lengths
    sentences = sum(batch.sizes[:skipped])
    rest = {name: getattr(batch, name)[skipped:] for name in ("sizes", "digests", "text_bytes", "places")}
    return Batch(**rest), tokens[int(lengths[:sentences].sum()) :], lengths[sentences:]


def stored(reader: Reader, tokenizer: PlainTokenizer, joint: str, dtype: np.dtype) -> Iterator[Encoded]:
    """What `write_shards` writes: the documents of a PartReader, which are tokenized already."""
    assert isinstance(reader, PartReader)
    return reader.stored(dtype)
