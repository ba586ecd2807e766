"""Input and output files of the jobs, on local disks and object stores."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError, MissingFileError
from ..core.object_store import file_system, is_remote, storage_errors
from ..text.formats.files import FORMATS, bare_suffix
from ..text.readers.corpus import FOLDER_FORMATS, corpus_files

ROWS = {".parquet": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".jsonl.zst": "jsonl"}


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


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus. uri: as it was named; modified: nanoseconds since 1970."""

    uri: str
    size: int
    modified: int | None


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


def remove(uri: str) -> None:
    """Remove a file."""
    system, path = file_system(uri)
    with storage_errors(uri):
        system.delete_file(path)


def write(uri: str, data: bytes) -> None:
    """Write a small file at once: under another name first on a disk, in one request on an object store."""
    system, path = file_system(uri)
    with storage_errors(uri):
        write_stream(system, path, lambda sink: sink.write(data))


def read_json(uri: str) -> dict[str, Any]:
    """Read a small file."""
    system, path = file_system(uri)
    with storage_errors(uri), system.open_input_stream(path) as source:
        found: dict[str, Any] = json.loads(source.read())
    return found


def write_stream(system: Any, path: str, fill: Any) -> None:
    """Write the file that `fill(sink)` fills. It has its name only when it is complete."""
    is_local = system.type_name == "local"
    name = f"{path}.tmp-{os.getpid()}" if is_local else path
    system.create_dir(path.rpartition("/")[0], recursive=True)
    with system.open_output_stream(name) as sink:
        fill(sink)
    if is_local:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        system.move(name, path)


def sha256(system: Any, path: str) -> str:
    """The digest of a file, as it is stored."""
    digest = hashlib.sha256()
    with system.open_input_stream(path) as source:
        while data := source.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def names_in(uri: str) -> list[str]:
    """The names of the files in a folder; none if it does not exist."""
    from pyarrow import fs

    system, path = file_system(uri)
    selector = fs.FileSelector(path, allow_not_found=True)
    with storage_errors(uri):
        return sorted(one.base_name for one in system.get_file_info(selector) if one.type == fs.FileType.File)


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
