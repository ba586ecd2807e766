"""The only writer, and the only opener of foreign paths.

What is written is complete or absent: a temporary sibling, fsync, rename, fsync of the parent. A folder carries a
manifest with the size and SHA-256 of every file, written last, so that a flipped bit is found on load. Tests replace
`fs` by one that fails at the n-th call.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .errors import CorruptFileError, InputError, MissingFileError, RunError, StorageError

try:
    import fcntl
except ImportError:  # Windows: the lock file is then advisory only
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"
JSON_LIMIT_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


class FileSystem:
    """The five calls that change a disk, in one place so that a test can let any of them fail."""

    def open(self, path: Path, mode: str) -> IO[Any]:
        """Open a file."""
        return path.open(mode)

    def write(self, handle: IO[Any], data: bytes) -> None:
        """Write bytes."""
        handle.write(data)

    def sync(self, handle: IO[Any]) -> None:
        """Bring a file's content to the disk."""
        handle.flush()
        os.fsync(handle.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Give `source` the name `target`, replacing it in one step."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Bring a folder's entries to the disk."""
        if os.name == "nt":
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


fs = FileSystem()


# -- writing -----------------------------------------------------------------------------------------------------


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write a file atomically: the old content stays until the new one is complete on disk."""
    with open_new(path) as handle:
        fs.write(handle, data)


def write_text(path: Path | str, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, value: Any) -> None:
    """Write JSON atomically, indented, with a final newline; half of a surrogate pair (in a file name) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        data = (json.dumps(value, indent=2) + "\n").encode("ascii")
    write_bytes(path, data)


@contextmanager
def open_new(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary file to stream into; it appears under `path` only when the block ends well."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with _disk_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with fs.open(temporary, "wb") as handle:
                yield handle
                fs.sync(handle)
            fs.rename(temporary, path)
            fs.sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def refuse_existing(path: Path | str, *, replace: bool = False) -> None:
    """Raise RunError unless a new folder may appear under `path`: nothing is there, or an empty folder.

    With `replace`, a folder that `new_folder` wrote may be there too; anything else is never removed.
    """
    path = Path(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not replace:
        raise RunError(f"{path} exists already and is not empty: choose another output, or remove it first.")
    if not (path / MANIFEST).is_file():
        raise RunError(
            f"{path} is not replaced: it holds no {MANIFEST}, so it is something else. Choose another output."
        )


@contextmanager
def new_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill; it appears under `path`, with its manifest, only when the block ends well.

    With `replace`, a folder that this function wrote is moved away just before the new one is renamed, then removed;
    anything else that is there is a RunError.
    """
    path = Path(path)
    refuse_existing(path, replace=replace)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    retired = path.with_name(f".{path.name}.old-{os.getpid()}")
    with _disk_errors(path):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            yield temporary
            seal_folder(temporary)
            if path.exists():
                fs.rename(path, retired)
            fs.rename(temporary, path)
            fs.sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            if retired.exists() and not path.exists():
                retired.replace(path)
            raise
        shutil.rmtree(retired, ignore_errors=True)


def seal_folder(folder: Path) -> None:
    """Sync every file of `folder` to disk and write its manifest (name, size, SHA-256), last of all."""
    files = {}
    for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST):
        with file.open("rb+") as handle:
            fs.sync(handle)
        files[file.relative_to(folder).as_posix()] = {"size": file.stat().st_size, "sha256": sha256(file)}
    write_json(folder / MANIFEST, {"files": files})


def append_line(path: Path | str, line: str) -> None:
    """Append one line to a log. A line that a crash cuts off is dropped when the log is next read."""
    append_bytes(path, line.encode("utf-8") + b"\n")


def append_bytes(path: Path | str, data: bytes) -> None:
    """Append to a file, in one write. Whoever reads it must bear an end that a crash cut off."""
    with _disk_errors(path), fs.open(Path(path), "ab") as handle:
        fs.write(handle, data)


def remove_folder(path: Path | str) -> None:
    """Remove a folder so that no half of it stays under its name: rename first, then delete."""
    path = Path(path)
    if not path.exists():
        return
    doomed = path.with_name(f".{path.name}.old-{os.getpid()}")
    with _disk_errors(path):
        shutil.rmtree(doomed, ignore_errors=True)
        fs.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path | str) -> None:
    """Remove what killed writers left in and below `folder`. Call it only while holding the folder's lock."""
    for pattern in (".*.tmp-*", ".*.old-*"):
        for path in list(Path(folder).rglob(pattern)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


# -- reading -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path | str, limit_bytes: int | None = None) -> bytes:
    """The content of a file. Raises MissingFileError, or InputError beyond `limit_bytes`."""
    path = Path(path)
    try:
        if limit_bytes is not None and path.stat().st_size > limit_bytes:
            raise InputError(f"{path} has {path.stat().st_size:,} bytes; at most {limit_bytes:,} are read.")
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_json(path: Path | str, limit_bytes: int = JSON_LIMIT_BYTES) -> Any:
    """A JSON file. Raises CorruptFileError when it does not parse."""
    data = read_bytes(path, limit_bytes)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} is not valid JSON ({error}): restore it from its source.") from None


def sha256(path: Path | str) -> str:
    """Hexadecimal SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def verify_folder(folder: Path | str) -> bool:
    """Check every file against the manifest. False when the folder has none.

    Raises CorruptFileError naming the file that is missing, cut off or changed.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_json(folder / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise CorruptFileError(f"{folder / MANIFEST} is not a manifest: restore the folder from a copy.")
    for name, facts in files.items():
        path = inside(folder, name)
        if not isinstance(facts, dict) or not isinstance(facts.get("size"), int) or "sha256" not in facts:
            raise CorruptFileError(f"{folder / MANIFEST} says nothing of {name}: restore the folder from a copy.")
        if not path.is_file():
            raise CorruptFileError(f"{path} is missing: the folder's manifest names it. Restore it from a copy.")
        size = path.stat().st_size
        if size != facts["size"]:
            raise CorruptFileError(
                f"{path} has {size:,} bytes where its manifest says {facts['size']:,}: restore it from a copy."
            )
        if sha256(path) != facts["sha256"]:
            raise CorruptFileError(
                f"{path} has changed since it was written (its SHA-256 differs): restore it from a copy."
            )
    return True


def inside(folder: Path | str, name: str) -> Path:
    """`folder/name`, resolved. Raises InputError when it leads out of the folder."""
    root = Path(folder).resolve()
    path = root if "\0" in name else (root / name).resolve()
    if "\0" in name or not path.is_relative_to(root):
        raise InputError(f"'{name}' leads out of {folder}: only files inside the folder are read.")
    return path


# -- one owner at a time -----------------------------------------------------------------------------------------


@contextmanager
def lock(folder: Path | str) -> Iterator[None]:
    """Hold `folder` for this process; another holder is a RunError that names it.

    The kernel drops the lock when its process dies, however it dies, so a stale one cannot exist.
    """
    folder = Path(folder)
    with _disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("a+")
    with handle:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.seek(0)
                holder = handle.read().strip() or "another process"
                raise RunError(f"{folder} is in use by {holder}: wait for it, or choose another folder.") from None
        handle.seek(0)
        handle.truncate()
        handle.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        handle.flush()
        yield


@contextmanager
def _disk_errors(path: Path | str) -> Iterator[None]:
    """Turn what the file system refuses into a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, (StorageError, MissingFileError)):
            raise
        advice = {
            errno.ENOSPC: "free some space, or choose another disk",
            errno.EDQUOT: "free some of your quota, or choose another disk",
            errno.EACCES: "check the permissions of the folder",
            errno.EROFS: "the disk is read-only; choose another one",
            errno.ENOTDIR: "a part of the path is a file; choose another place",
            errno.EEXIST: "a part of the path is a file; choose another place",
            errno.EISDIR: "a folder has that name; choose another one",
            errno.ENAMETOOLONG: "choose a shorter name",
            errno.EFBIG: "the file is larger than the limit set for this process",
        }.get(error.errno or 0, "check the disk")
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write {path}: {reason}; {advice}. What was there before is intact.") from error
