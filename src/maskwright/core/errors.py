"""Exceptions for errors that a user can cause, in one tree.

    MaskwrightError                   exit code 2 on the command line
    ├── InputError (ValueError)       invalid text, rows or arguments
    │   ├── RowErrors                 all invalid rows of one or more files
    │   └── ConfigError               a setting that is unknown or out of range
    ├── MissingFileError (FileNotFoundError)
    ├── ModelFolderError (ValueError) a folder without a model, or with an unsupported one
    │   └── CorruptFileError          content that is truncated or differs from its manifest
    ├── MissingExtraError (ImportError)
    ├── StorageError (OSError)        disk full, read-only, or no permission
    ├── OutOfMemoryError (MemoryError) the input or the model does not fit into memory
    ├── RunError (RuntimeError)       a run folder that is in use, or was started with other settings
    └── TrainingError (RuntimeError)  the loss is not finite

Each message is one sentence: what is wrong, where, and how to fix it. Any other exception that escapes is a bug.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass

MAX_ROWS_SHOWN = 50  # distinct errors in one message
LINES_SHOWN = 5  # line numbers per distinct error
LONGEST_REASON = 500  # characters


def shortened(text: str, longest: int) -> str:
    """Returns the text, with the middle replaced by its number of characters if it is longer than `longest`."""
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end]} [... {len(text) - longest:,} characters ...] {text[len(text) - end :]}"


class MaskwrightError(Exception):
    """Base class of all errors that a user can cause. A long message keeps its beginning and end."""

    exit_code = 2
    longest = 4000  # characters; messages may quote file content of any length

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(str(message), self.longest))


class InputError(MaskwrightError, ValueError):
    """Invalid text, rows or arguments."""


class ConfigError(InputError):
    """A setting that is unknown, of the wrong type, or out of range."""


class MissingFileError(MaskwrightError, FileNotFoundError):
    """A path that does not exist."""


class ModelFolderError(MaskwrightError, ValueError):
    """A folder that is not a model, or a model that is not supported."""


class CorruptFileError(ModelFolderError):
    """A file whose content is truncated or differs from its manifest."""


class MissingExtraError(MaskwrightError, ImportError):
    """An optional dependency is not installed.

    need: the requested feature, in words ("reading Parquet"); extra: the name of the extra that provides it.
    """

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} needs the optional extra '{extra}': run pip install 'maskwright[{extra}]'.")
        self.extra = extra


class StorageError(MaskwrightError, OSError):
    """The file system rejected an operation: disk full, read-only, or no permission."""


class OutOfMemoryError(MaskwrightError, MemoryError):
    """The input or the model does not fit into memory."""


class RunError(MaskwrightError, RuntimeError):
    """A run folder that another process has locked, or whose run has other settings."""


class TrainingError(MaskwrightError, RuntimeError):
    """Training cannot continue: the loss or a gradient is not finite."""


@dataclass(frozen=True)
class RowError:
    """One invalid row: file, physical line (from 1), column (None for the whole row) and reason."""

    file: str
    line: int
    column: str | None
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        reason = shortened(self.reason, LONGEST_REASON)
        return f"{where}: column '{self.column}': {reason}" if self.column else f"{where}: {reason}"


class RowErrors(InputError):
    """All invalid rows that were found.

    rows: all of them (the message groups rows with the same file, column and reason); num_good: number of valid rows,
    None if unknown. With 0 valid rows the message does not suggest --skip-bad-rows.
    """

    longest = 2 * MAX_ROWS_SHOWN * LONGEST_REASON

    def __init__(self, rows: Sequence[RowError], num_good: int | None = None) -> None:
        self.rows, self.num_good = list(rows), num_good
        equal: dict[tuple[str, str | None, str], list[RowError]] = {}
        for row in self.rows:
            equal.setdefault((row.file, row.column, row.reason), []).append(row)
        shown = [f"  {_counted(same)}" for same in list(equal.values())[:MAX_ROWS_SHOWN]]
        hidden = sum(len(same) for same in list(equal.values())[MAX_ROWS_SHOWN:])
        shown += [f"  and {hidden:,} more"] if hidden else []
        noun = "bad row" if len(self.rows) == 1 else "bad rows"
        start = f"{len(self.rows):,} {noun} and no valid one; fix the file, or specify other --columns"
        if num_good != 0:
            start = f"{len(self.rows):,} {noun}; fix the file, or skip invalid rows with --skip-bad-rows"
        super().__init__(":\n".join([start, "\n".join(shown)]))


def _counted(same: Sequence[RowError]) -> str:
    """Formats rows with the same error as one line, with their count and the first line numbers."""
    if len(same) == 1:
        return str(same[0])
    lines = ", ".join(str(row.line) for row in same[:LINES_SHOWN])
    return f"{same[0]} ({len(same):,} rows: lines {lines}{', …' if len(same) > LINES_SHOWN else ''})"


_ADVICE = {
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some of your quota, or choose another disk",
    errno.EACCES: "check the permissions of the file and its folder",
    errno.EPERM: "check the permissions of the file and its folder",
    errno.EROFS: "the disk is read-only; choose another one",
    errno.ENOENT: "it, or its folder, was moved or removed; check the path",
    errno.ENOTDIR: "a part of the path is a file; choose another path",
    errno.EEXIST: "a part of the path is a file; choose another path",
    errno.EISDIR: "a folder has that name; choose another one",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EFBIG: "the file is larger than the limit set for this process",
    errno.EMFILE: "this process has too many open files; raise the limit with ulimit -n",
}


def explain_os_error(error: OSError) -> str:
    """Returns the system's message and a fix, without the path: "No space left on device; free ..."."""
    return f"{error.strerror or error}; {_ADVICE.get(error.errno or 0, 'check the disk')}"


def as_user_error(error: BaseException) -> MaskwrightError | None:
    """Converts a system or library exception caused by user input to our error tree; None for a bug.

    Covers out of memory (Python, or torch on any device), file system calls with a path, and a path with a NUL
    character.
    """
    if isinstance(error, MaskwrightError):
        return error
    if isinstance(error, MemoryError) or _is_torch_out_of_memory(error):
        return OutOfMemoryError(
            "Out of memory: use a smaller batch (--batch-size, --batch-tokens), shorter texts (--max-length) or a "
            "smaller model, or free memory that other programs use."
        )
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        return StorageError(f"{error.filename}: {explain_os_error(error)}.")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return StorageError(f"The output cannot be written: {explain_os_error(error)}.")
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return InputError("A path contains a NUL character: no file has such a name. Check the paths and their files.")
    return None


def _is_torch_out_of_memory(error: BaseException) -> bool:
    """Whether torch failed to allocate. Its CPU allocator, and oneDNN where it has no memory for the code of a matrix
    product, raise a plain RuntimeError, recognized by its message.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return False
    text = str(error)
    is_cpu = "can't allocate memory" in text or text == "could not create a primitive"
    return isinstance(error, torch.OutOfMemoryError) or is_cpu
