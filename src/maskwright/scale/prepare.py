"""Prepares a corpus on several machines: the files become tokens in parallel, then one process writes the shards.

The shards are those of `data.prepare`, byte for byte: documents in the order of the input, without the duplicates of
earlier ones. A rerun after an interruption tokenizes only the files that are not finished.

A worker writes the tokens of one file to a part, an Arrow stream with one record per batch of documents, so both sides
need the memory of a batch only. Nothing is dropped in a worker: whether a document is a duplicate is known only when
all files before it have been read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core import registry, storage
from ..core.errors import InputError, MissingFileError, RowError, RunError
from ..core.object_store import file_system, is_remote, storage_errors
from ..data.prepare import (
    DIGEST_BYTES,
    SHARD_TOKENS,
    Batch,
    CorpusPosition,
    Encoded,
    Reader,
    SeenDigests,
    check_finished,
    encode_batch,
    recipe_of,
    settings_of,
    write_shards,
)
from ..data.shards import FACTS, read_facts, token_dtype, tokenizer_sha256
from ..text.formats.files import FORMATS, bare_suffix
from ..text.readers.corpus import FOLDER_FORMATS, MAX_ROWS_KEPT, corpus_files
from ..text.tokenizers.tokenizer import Tokenizer
from .parts import Items, Worker, Workers, complete, names_in, noted, part_name, read_note, remove, sha256, write_stream

PARTS = "_parts"  # the folder of the tokens, in the output folder; only its notes are kept at the end
_COLUMNS = ("tokens", "lengths", "sizes", "digests", "text_bytes")  # of a record; numbers as bytes, little-endian
_COUNT = np.dtype("<i8")
_ADDED = (
    *("files", "file_bytes", "documents", "sentences", "characters", "cut_sentences", "cut_documents"),
    "skipped_rows",
)


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus. uri: as it was named; modified: nanoseconds since 1970."""

    uri: str
    size: int
    modified: int | None


def corpus_inputs(names: Sequence[str]) -> list[CorpusFile]:
    """The files of a corpus in reading order, as `corpus_files` orders them, also those of object stores.

    Raises InputError and MissingFileError for what cannot be read.
    """
    found: dict[str, CorpusFile] = {}
    for name in names:
        if name == "-" or name.startswith("hub:"):
            raise InputError(f"{name} cannot be read by several workers: save it to a file first.")
        if is_remote(name):
            with storage_errors(name):
                new = _remote_corpus(name)
        else:
            facts = ((file, Path(file).stat()) for file in corpus_files(name))
            new = [CorpusFile(file, one.st_size, one.st_mtime_ns) for file, one in facts]
        for file in new:
            found.setdefault(file.uri if is_remote(file.uri) else os.path.realpath(file.uri), file)
    return list(found.values())


def upload(folder: Path, uri: str, last: str) -> None:
    """Copy the files below a folder to an address, the file `last` at the end."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    for path in sorted(files, key=lambda path: path.name == last):
        target = f"{uri}/{path.relative_to(folder).as_posix()}"
        system, place = file_system(target)
        with storage_errors(target), path.open("rb") as source:
            write_stream(system, place, lambda sink, source=source: shutil.copyfileobj(source, sink, 1 << 20))


def _remote_corpus(name: str) -> list[CorpusFile]:
    from pyarrow import fs

    system, path = file_system(name)
    info = system.get_file_info(path)
    if info.type == fs.FileType.File:
        return [CorpusFile(name, info.size or 0, info.mtime_ns)]
    if info.type == fs.FileType.NotFound:
        raise MissingFileError(f"{name} does not exist.")
    infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    names = {one.path[len(path) :].lstrip("/"): one for one in infos if one.type == fs.FileType.File}
    files = [
        CorpusFile(f"{name.rstrip('/')}/{inner}", one.size or 0, one.mtime_ns)
        for inner, one in sorted(names.items())
        if FORMATS.get(bare_suffix(inner)) in FOLDER_FORMATS
        and not any(part.startswith(".") for part in inner.split("/"))
    ]
    if not files:
        raise InputError(f"{name} has no files of text ({', '.join(FOLDER_FORMATS)}).")
    return files


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
        return part_name(f"{number:05d}", decisive, "arrow")


class FileWorker(Worker):
    """Tokenizes files; made once in each worker process."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = CorpusJob(**job)
        super().__init__(self.job.output)
        self.tokenizer = Tokenizer.load(self.job.tokenizer)

    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
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
            counts = self.parts[number]["facts"]
            for name in _ADDED:
                setattr(self.facts, name, getattr(self.facts, name) + counts[name])
            room = MAX_ROWS_KEPT - len(self.facts.bad_rows)
            self.facts.bad_rows += [RowError(**row) for row in counts["bad_rows"][:room]]

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


def _after(batch: Batch, tokens: np.ndarray, lengths: np.ndarray, skipped: int) -> Encoded:
    """A batch of a part without its first documents."""
    if skipped <= 0:
        return batch, tokens, lengths
    sentences = sum(batch.sizes[:skipped])
    rest = {name: getattr(batch, name)[skipped:] for name in ("sizes", "digests", "text_bytes", "places")}
    return Batch(**rest), tokens[int(lengths[:sentences].sum()) :], lengths[sentences:]


def stored(reader: Reader, tokenizer: Tokenizer, joint: str, dtype: np.dtype) -> Iterator[Encoded]:
    """What `write_shards` writes: the documents of a PartReader, which are tokenized already."""
    assert isinstance(reader, PartReader)
    return reader.stored(dtype)


def prepare(
    sources: Sequence[str],
    tokenizer: str,
    output: str,
    *,
    objective: str = "mlm",
    text_field: str = "text",
    split_lines: bool = False,
    keep_duplicates: bool = False,
    skip_bad_rows: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    workers: int | None = None,
) -> dict[str, Any]:
    """Tokenize a corpus into shards. Returns the content of `shards.json`.

    sources: files, folders and patterns; tokenizer: its folder, at the same path on all machines; output: a folder or
    an address; objective: decides whether lines are joined; workers: None for one per CPU. Raises RunError when the
    output folder has a corpus of other text or settings.
    """
    loaded = Tokenizer.load(tokenizer)
    joint = registry.resolve("objective", objective).line_separator(loaded)
    output = output.rstrip("/") if is_remote(output) else os.fspath(Path(output).absolute())
    folder = f"{output}/{PARTS}"
    job = CorpusJob(
        os.fspath(Path(tokenizer).absolute()), tokenizer_sha256(loaded), folder, text_field, split_lines, joint
    )
    items = _items(job, corpus_inputs(sources))
    settings = settings_of(text_field, split_lines, keep_duplicates, shard_tokens, joint)
    with nullcontext() if is_remote(output) else storage.lock(output):
        if FACTS in names_in(output):
            if not items.keys() <= noted(folder):
                raise RunError(f"{output} has a corpus of other text, settings or tokenizer: choose another folder.")
            parts = [read_note(folder, name) for name in items]
        else:
            parts = complete(
                folder,
                items,
                Workers(FileWorker, lambda device, threads: {"job": asdict(job)}, workers, per_cpu=True).compute,
            )
        recipe = recipe_of(loaded, settings, (part["source"] for part in parts))
        facts = _write(output, loaded, recipe, partial(PartReader, folder, parts), skip_bad_rows)
        for name in names_in(folder):
            remove(f"{folder}/{name}")
    return facts


def _items(job: CorpusJob, files: Sequence[CorpusFile]) -> Items:
    found = {}
    for number, file in enumerate(files):
        path = file.uri if is_remote(file.uri) else os.fspath(Path(file.uri).absolute())
        name = job.part_name(number, file)
        found[name] = {"name": name, "uri": file.uri, "path": path}
    return found


def _write(output: str, tokenizer: Tokenizer, recipe: dict[str, Any], read: Any, skip_bad_rows: bool) -> dict[str, Any]:
    """Write the shards from the parts: in the output folder, or on this machine and then to its address."""
    write = partial(
        write_shards, tokenizer=tokenizer, recipe=recipe, read=read, encode=stored,
        skip_bad_rows=skip_bad_rows,
    )  # fmt: skip
    if not is_remote(output):
        return write(Path(output)).facts
    with tempfile.TemporaryDirectory(prefix="maskwright-") as folder:
        target = Path(folder)
        if FACTS in names_in(output):
            system, path = file_system(f"{output}/{FACTS}")
            with system.open_input_stream(path) as source:
                storage.write_bytes(target / FACTS, source.read())
            check_finished(target, recipe)
            return read_facts(target)
        facts = write(target).facts
        upload(target, output, FACTS)
        return facts
