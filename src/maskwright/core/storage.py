"""Atomic writes and checked reads of all files, and the integrity of model folders."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from . import errors, locking
from .errors import CorruptFileError, InputError, MaskwrightError, MissingFileError, RunError, StorageError

# -- Atomic writes and checked reads; all files are written here -----------------------------------------------------
#
# A write is complete or absent: temporary sibling, fsync, rename, fsync of the parent folder. The manifest of a folder,
# written last, has the size and SHA-256 of every file. Tests replace `fs` with one that fails at the n-th call.


lock = locking.lock
MANIFEST = "manifest.json"
CHECKSUM = "sha256"  # key in a JSON object: checksum of its other entries
FROM_COPY = "Restore it from a copy."
JSON_LIMIT_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_RECENT_NS = 2_000_000_000
_known_digests: dict[tuple[int, ...], str] = {}  # of input files, by their state


class FileSystem:
    """The five calls that change a disk, in one place so that a test can make any of them fail."""

    def open(self, path: Path, mode: str) -> IO[Any]:
        """Open a file."""
        return path.open(mode)

    def write(self, handle: IO[Any], data: bytes | memoryview) -> None:
        """Write bytes."""
        handle.write(data)

    def sync(self, handle: IO[Any]) -> None:
        """Flush a file's content to the disk."""
        handle.flush()
        os.fsync(handle.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Rename `source` to `target` atomically, replacing it."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Flush a folder's entries to the disk."""
        if os.name == "nt":
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


fs = FileSystem()


# -- writing -----------------------------------------------------------------------------------------------------


def write_bytes(path: Path | str, data: bytes, *, private: bool = False) -> None:
    """Writes a file atomically: the old content stays until the new one is complete. private: see `open_new`."""
    with open_new(path, private=private) as handle:
        fs.write(handle, data)


def write_text(path: Path | str, text: str, *, private: bool = False) -> None:
    """Writes UTF-8 text atomically. private: see `open_new`."""
    write_bytes(path, text.encode("utf-8"), private=private)


def write_json(path: Path | str, value: Any) -> None:
    """Writes indented JSON atomically; an unpaired surrogate (in a file name) is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        data = (json.dumps(value, indent=2) + "\n").encode("ascii")
    write_bytes(path, data)


@contextmanager
def open_new(path: Path | str, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Opens a binary file for streaming; it appears as `path` only if the block succeeds.

    Temporary files left by killed processes are removed. private: only the owner can read the file (0600) and list
    its folder (0700); the folder's permissions are changed if needed.
    """
    path = Path(path)
    with _disk_errors(path):
        if private:
            private_folder(path.parent)  # before there is a file that another user could open
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        locking.remove_stale(path)
        for temporary in locking.temporaries(path):
            try:
                handle = fs.open(temporary, "xb")
            except FileExistsError:  # another running process is writing it
                continue
            with locking.created(temporary, handle) as is_ours:
                if not is_ours:
                    handle.close()
                    continue
                try:
                    with handle:
                        if private:
                            temporary.chmod(0o600)
                        yield handle
                        fs.sync(handle)
                    fs.rename(temporary, path)
                    fs.sync_folder(path.parent)
                except BaseException:
                    temporary.unlink(missing_ok=True)
                    raise
            return


def private_folder(path: Path) -> None:
    """Creates a folder that only its owner can open (0700); an existing one is changed."""
    with _disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)


def refuse_existing(path: Path | str, *, replace: bool = False) -> None:
    """Raises RunError unless a new folder may be created at `path`: nothing or an empty folder is there.

    With `replace`, a folder written by `new_folder` may be there too; nothing else is ever removed.
    """
    path = Path(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not replace:
        raise RunError(f"{path} already exists and is not empty: choose another output, or remove it first.")
    if not (path / MANIFEST).is_file():
        raise RunError(
            f"{path} is not replaced: it contains no {MANIFEST}, so maskwright did not write it. Choose another output."
        )


@contextmanager
def new_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yields a folder to fill; it appears as `path`, with its manifest, only if the block succeeds.

    With `replace`, a folder written by this function is moved away just before the new one is renamed, then removed;
    anything else at `path` is a RunError. Temporary folders left by killed processes are removed.
    """
    path = Path(path)
    recover_folder(path)
    refuse_existing(path, replace=replace)
    retired = next(name for name in locking.temporaries(path, "old") if not name.exists())
    with _disk_errors(path), _temporary_folder(path) as temporary, locking.held(path):
        try:
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


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Creates a locked folder next to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    locking.remove_stale(path)
    for temporary in locking.temporaries(path):
        try:
            temporary.mkdir()
        except FileExistsError:
            continue
        with locking.created(temporary) as is_ours:
            if is_ours:
                yield temporary
                return


def recover_folder(path: Path | str) -> None:
    """Restores the complete folder that a killed process had moved away from `path`."""
    path = Path(path)
    if path.exists():
        return
    for retired in locking.unfinished(path):
        if ".old-" not in retired.name:
            continue
        with locking.held(retired) as is_stale, suppress(MaskwrightError, OSError):
            if is_stale and not path.exists():
                verify_folder(retired)
                retired.rename(path)


def seal_folder(folder: Path) -> None:
    """Syncs every file of `folder` to disk and writes its manifest (name, size, SHA-256) last."""
    files = {}
    for name in files_in(folder):
        with (folder / name).open("rb+") as handle:
            fs.sync(handle)
        files[name] = {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
    write_json(folder / MANIFEST, {"files": files})


def write_checked_json(path: Path | str, value: Mapping[str, Any]) -> None:
    """Writes a JSON object with its own SHA-256, for a file that changes while its folder is in use."""
    write_json(path, {**value, CHECKSUM: _json_sha256(value)})


def _json_sha256(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def files_in(folder: Path) -> list[str]:
    """Returns the relative paths of all files in a folder, recursively, without its manifest and hidden files."""
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file() and file != folder / MANIFEST)
    return sorted(name.as_posix() for name in found if not any(part.startswith(".") for part in name.parts))


def append_line(path: Path | str, line: str) -> None:
    """Appends one line to a log. A reader drops a line truncated by a crash."""
    append_bytes(path, line.encode("utf-8") + b"\n")


def append_bytes(path: Path | str, data: bytes) -> None:
    """Appends to a file in one write. A reader must tolerate an end truncated by a crash."""
    with _disk_errors(path), fs.open(Path(path), "ab") as handle:
        fs.write(handle, data)


def remove_folder(path: Path | str) -> None:
    """Removes a folder by renaming and then deleting it, so a partial folder never has its name."""
    path = Path(path)
    if not path.exists():
        return
    with _disk_errors(path):
        doomed = next(name for name in locking.temporaries(path) if not name.exists())
        fs.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path | str) -> None:
    """Removes temporary files left by killed processes in `folder`, recursively. The caller must hold its lock."""
    for pattern in (".*.tmp-*", ".*.old-*"):
        for path in list(Path(folder).rglob(pattern)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


# -- reading -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path | str, limit_bytes: int | None = None) -> bytes:
    """Reads a file. Raises MissingFileError, or InputError if it is larger than `limit_bytes`."""
    path = Path(path)
    with _read_errors(path):
        if limit_bytes is not None and path.stat().st_size > limit_bytes:
            raise InputError(f"{path} has {path.stat().st_size:,} bytes; the maximum is {limit_bytes:,}.")
        return path.read_bytes()


@contextmanager
def _read_errors(path: Path | str) -> Iterator[None]:
    """Converts read errors to user errors."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {errors.explain_os_error(error)}.") from error


def read_json(path: Path | str, limit_bytes: int = JSON_LIMIT_BYTES, fix: str = "Restore it from its source.") -> Any:
    """Reads JSON. Raises CorruptFileError, whose last sentence is `fix`, if it does not parse."""
    data = read_bytes(path, limit_bytes)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} is not valid JSON ({error}). {fix}") from None


def read_checked_json(path: Path | str, fix: str = FROM_COPY, limit_bytes: int = JSON_LIMIT_BYTES) -> dict[str, Any]:
    """Reads a file of `write_checked_json`. Raises CorruptFileError, whose last sentence is `fix`, if it changed."""
    value = read_json(path, limit_bytes, fix)
    recorded = value.pop(CHECKSUM, None) if isinstance(value, dict) else None
    if recorded is None or recorded != _json_sha256(value):
        raise CorruptFileError(f"{path} has changed since it was written (its SHA-256 differs). {fix}")
    return dict(value)


def sha256(path: Path | str) -> str:
    """Returns the hexadecimal SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with _read_errors(path), Path(path).open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def state_of(path: Path | str) -> tuple[int, ...]:
    """Returns what differs once a file has been written or replaced: device, inode, size, times of the last changes."""
    with _read_errors(path):
        facts = Path(path).stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def input_sha256(path: Path | str) -> str:
    """Returns the SHA-256 of an input file, which is read once by a process as long as it does not change.

    A file that was written just now is read again, because a further write may leave its times as they are.
    """
    state = state_of(path)
    if state not in _known_digests:
        digest = sha256(path)
        if time.time_ns() - max(state[-2:]) < _RECENT_NS or state_of(path) != state:
            return digest
        _known_digests[state] = digest
    return _known_digests[state]


def has_manifest(folder: Path | str) -> bool:
    """Whether a folder has a maskwright manifest."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return False
    content = read_json(path)
    return isinstance(content, dict) and isinstance(content.get("files"), dict)


def read_manifest(folder: Path | str, fix: str = FROM_COPY) -> dict[str, dict[str, Any]]:
    """Reads the manifest of a folder: relative path -> {"size", "sha256"}.

    Raises CorruptFileError, whose last sentence is `fix`, if it is missing or damaged.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise CorruptFileError(f"{path} is missing: without it, changed files cannot be detected. {fix}")
    content = read_json(path, fix=fix)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict):
        raise CorruptFileError(f"{path} is not a manifest. {fix}")
    for name, facts in files.items():
        if not isinstance(facts, dict) or type(facts.get("size")) is not int or "sha256" not in facts:
            raise CorruptFileError(f"{path} records no size and SHA-256 of {name}. {fix}")
    return files


def verify_folder(
    folder: Path | str,
    *,
    names: Iterable[str] | None = None,
    root: Path | None = None,
    manifest_sha256: str | None = None,
    fix: str = FROM_COPY,
) -> None:
    """Compares a folder with its manifest.

    Args:
        names: Check only these files, if the manifest records them.
        root: Folder that links may point into (a download cache); default: the folder itself.
        manifest_sha256: Checksum of the manifest, if another file records it.

    Raises CorruptFileError with the missing, truncated or changed file; its last sentence is `fix`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, fix)
    if manifest_sha256 is not None and sha256(folder / MANIFEST) != manifest_sha256:
        raise CorruptFileError(f"{folder / MANIFEST} has changed since it was written (its SHA-256 differs). {fix}")
    for name in manifest if names is None else [name for name in names if name in manifest]:
        problem = difference(inside(folder, name, root), manifest[name])
        if problem:
            raise CorruptFileError(f"{folder / name} {problem}. {fix}")


def difference(path: Path, facts: Mapping[str, Any]) -> str:
    """Returns how a file differs from its manifest entry; "" if it does not."""
    if not path.is_file():
        return f"is missing: {MANIFEST} records it"
    size = path.stat().st_size
    if size != facts["size"]:
        return f"has {size:,} bytes; its manifest records {facts['size']:,}"
    return "" if sha256(path) == facts["sha256"] else "has changed since it was written (its SHA-256 differs)"


def inside(folder: Path | str, name: str, root: Path | None = None) -> Path:
    """Returns `folder/name`, resolved. Raises InputError if it leads out of the folder, or links leave `root`."""
    own = Path(folder).resolve()
    lies_in = own if root is None else root.resolve()
    path = own if "\0" in name else (own / name).resolve()
    is_climbing = root is not None and ".." in Path(name).parts
    if "\0" in name or is_climbing or not path.is_relative_to(lies_in):
        raise InputError(f"'{name}' is outside {folder}: only files inside the folder are read.")
    return path


@contextmanager
def _disk_errors(path: Path | str) -> Iterator[None]:
    """Converts file system errors to user errors."""
    try:
        yield
    except OSError as error:
        if isinstance(error, (StorageError, MissingFileError)):
            raise
        before = "" if error.errno == errno.ENOENT else " Existing files are unchanged."
        raise StorageError(f"Cannot write {path}: {errors.explain_os_error(error)}.{before}") from error


# -- Integrity of model folders written by maskwright: maskwright.json records that a manifest exists ----------------
#
# A tokenizer folder records it in tokenizer_config.json. A missing manifest is therefore an error, not a sign of
# another program's folder. Accept intended changes with `maskwright doctor FOLDER --accept`.


FACTS, MODEL_CONFIG, ADAPTER_CONFIG = "maskwright.json", "config.json", "adapter_config.json"
EXPORTED = "export"  # entry in FACTS of a folder with a graph instead of weights
RECORD = {"manifest": MANIFEST}  # entry in FACTS of a folder with a manifest


def is_model_folder(folder: Path) -> bool:
    """Returns whether a folder contains a model, whole or as an adapter."""
    return (folder / MODEL_CONFIG).is_file() or (folder / ADAPTER_CONFIG).is_file()


def read_facts(folder: str | Path) -> dict[str, Any]:
    """Reads maskwright.json; empty for a folder of another program. Raises CorruptFileError."""
    path = Path(folder) / FACTS
    if not path.is_file():
        return {}
    facts = read_json(path, fix=fix_for(folder))
    if not isinstance(facts, dict):
        raise CorruptFileError(f"{path} is not a JSON object. {fix_for(folder)}")
    return facts


def fix_for(folder: str | Path) -> str:
    """Returns the suggested fix for a folder that has changed."""
    accept = shlex.join(["maskwright", "doctor", "model", str(folder), "--accept"])
    return f"Restore it from a copy, or, if you changed it on purpose, run {accept}"


def verify_sealed(folder: Path, names: Iterable[str] | None = None, root: Path | None = None) -> bool:
    """Compares a folder with its manifest; returns False for another program's folder without one.

    Args:
        names: Check only these files, if the manifest records them.
        root: Folder that links may point into (a download cache).

    Raises CorruptFileError with the missing or changed file (the manifest itself if maskwright.json records one).
    """
    facts = read_facts(folder)
    is_there = (folder / MANIFEST).is_file() and (bool(facts) or has_manifest(folder))
    if not is_there and not facts.get("manifest"):
        return False
    verify_folder(folder, names=names, root=root, fix=fix_for(folder))
    return True


def changes(folder: Path) -> dict[str, str]:
    """Returns the differences from the manifest: relative path -> change. Without a manifest, all files are new."""
    try:
        recorded = read_manifest(folder)
    except CorruptFileError:
        recorded = {}
    found = {name: difference(folder / name, facts) for name, facts in recorded.items()}
    new = "is new: the manifest does not record it" if recorded else "is new: there was no usable manifest"
    found |= {name: new for name in files_in(folder) if name not in recorded}
    return {name: problem for name, problem in found.items() if problem}


def accept(folder: Path) -> None:
    """Records the current files of a folder in a new manifest, and the manifest in a model's maskwright.json.

    Raises CorruptFileError if maskwright.json cannot be read, StorageError if the folder cannot be written.
    """
    facts = read_facts(folder)
    is_model = bool(facts) or is_model_folder(folder)
    if is_model and facts.get("manifest") != MANIFEST:
        write_json(folder / FACTS, {"format": 1} | facts | RECORD)
    seal_folder(folder)
