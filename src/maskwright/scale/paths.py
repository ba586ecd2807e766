"""Files of local disks and object stores: pyarrow's file systems, and those of fsspec packages that are installed."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError, MissingExtraError, MissingFileError

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


def file_system(uri: str) -> tuple[Any, str]:
    """The pyarrow file system of an address or a local path, and the path there.

    Credentials come from the environment. Raises InputError for an address of no known kind.
    """
    try:
        from pyarrow import fs
    except ImportError:
        raise MissingExtraError("maskwright scale", "scale") from None
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return fs.LocalFileSystem(), os.fspath(Path(uri).absolute())
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
        return found
    except (ValueError, OSError):  # no scheme of pyarrow
        try:
            import fsspec

            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme))), rest
        except (ImportError, ValueError):
            raise InputError(
                f"{uri} has an address of an unknown kind: install the fsspec package of '{scheme}', or use s3://, "
                "gs://, abfs://, hdfs:// or a local path."
            ) from None


def row_files(names: Sequence[str]) -> list[RowFile]:
    """The files that are named: themselves, those in a folder, or those that match a pattern such as data/*.parquet.

    They are in the given order, those of a folder or pattern by name. Raises InputError for another kind of file, and
    MissingFileError where nothing is found.
    """
    found = [one for name in names for one in _expanded(name)]
    if not found:
        raise MissingFileError(f"{', '.join(names)} has no .parquet and no .jsonl files.")
    return found


def write(uri: str, data: bytes) -> None:
    """Write a small file at once: under another name first on a disk, in one request on an object store."""
    system, path = file_system(uri)
    write_stream(system, path, lambda sink: sink.write(data))


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
