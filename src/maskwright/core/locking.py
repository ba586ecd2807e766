"""File locks: run folders in use, and temporary files left by killed processes.

The kernel releases a lock when its process ends for any reason, so there are no stale locks. Process ids are not
used: they are reused and differ between containers.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import RunError, StorageError, explain_os_error

try:
    import fcntl
except ImportError:  # Windows: the lock file is then advisory only
    fcntl = None  # type: ignore[assignment]  # checked before use

WAIT_SECONDS = 0.05  # before a second attempt to lock

# `.NAME.tmp-...` is being written or deleted; `.NAME.old-...` is being replaced by a new version.
_UNFINISHED = re.compile(r"(tmp|old)-\d+(-\d+)?", re.ASCII)


@contextmanager
def lock(folder: Path | str) -> Iterator[None]:
    """Locks `folder` for this process. Raises RunError with the owner if another process has the lock.

    Raises StorageError if the folder cannot be created.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("a+")
    except OSError as error:
        raise StorageError(f"Cannot write {folder}: {explain_os_error(error)}.") from error
    with handle:
        if fcntl is not None and not _take(handle.fileno()):
            time.sleep(WAIT_SECONDS)  # `is_locked` of another process takes the lock for a moment
            if not _take(handle.fileno()):
                handle.seek(0)
                holder = handle.read().strip() or "another process"
                raise RunError(f"{folder} is in use by {holder}: wait for it, or choose another folder.")
        handle.seek(0)
        handle.truncate()
        handle.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        handle.flush()
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process has locked `folder`. False where the lock cannot be read, as on Windows."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder / ".lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Locks a file or folder inside the block; yields False if another process has the lock or the path is gone.

    Also yields False on file systems without locks (some network disks). Windows has no such locks, but does not
    delete open files: there it yields True for files.
    """
    if fcntl is None:
        yield path.is_file()
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _take(descriptor) and _is_at(descriptor, path)
    finally:
        os.close(descriptor)


@contextmanager
def created(path: Path, handle: IO[bytes] | None = None) -> Iterator[bool]:
    """Locks what this process has just created, until the block ends; yields False if another process removed it.

    `remove_stale` of another process or thread may see it before it is locked, and take it for one of a killed
    process. handle: the open file, which is locked itself: by then the name may be a third one's file; None for a
    folder. On file systems without locks, and on Windows, nothing is locked.
    """
    if fcntl is None:
        yield True
        return
    try:
        descriptor = os.dup(handle.fileno()) if handle else os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield _is_at(descriptor, path)
    finally:
        os.close(descriptor)


@contextmanager
def waited(path: Path) -> Iterator[None]:
    """Locks the file `path`, which is created if necessary, and waits while another process has the lock.

    On file systems without locks, and on Windows, nothing is locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {explain_os_error(error)}.") from error
    with handle:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _take(descriptor: int) -> bool:
    """Locks an open file; False if another process has the lock or the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this name: another process may have removed it before it was locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def temporaries(path: Path, kind: str = "tmp") -> Iterator[Path]:
    """Yields temporary names next to `path`. Threads, and processes of two containers, may need several."""
    return (path.with_name(f".{path.name}.{kind}-{os.getpid()}-{number}") for number in itertools.count())


def unfinished(path: Path) -> list[Path]:
    """Returns the temporary siblings of `path` that are being written or were left by killed processes."""
    start = f".{path.name}."
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(start)]
    except OSError:
        return []
    return [path.with_name(name) for name in sorted(names) if _UNFINISHED.fullmatch(name.removeprefix(start))]


def remove_stale(path: Path) -> None:
    """Removes temporary files of `path` left by killed processes. Those of running processes are locked and stay."""
    for found in unfinished(path):
        with held(found) as is_stale:
            if is_stale and found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            elif is_stale:
                with suppress(OSError):  # Windows does not delete open files; the disk may be read-only
                    found.unlink()
