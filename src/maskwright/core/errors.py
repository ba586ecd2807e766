"""Every error that a user can cause, in one tree.

    MaskwrightError                   exit code 2 on the command line
    ├── InputError (ValueError)       text, rows, arguments that cannot be used
    │   ├── RowErrors                 all bad rows of one or more files
    │   └── ConfigError               a setting that is unknown or out of range
    ├── MissingFileError (FileNotFoundError)
    ├── ModelFolderError (ValueError) a folder that is no model, or not one that we support
    │   └── CorruptFileError          content that differs from its manifest, or is cut off
    ├── MissingExtraError (ImportError)
    ├── StorageError (OSError)        the disk refused: full, read-only, no permission
    ├── RunError (RuntimeError)       a run folder that is in use, or holds other settings
    └── TrainingError (RuntimeError)  the loss is not finite

Each carries one sentence that says what is wrong, where, and what to do. Anything else that escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_ROWS_SHOWN = 50


class MaskwrightError(Exception):
    """Base of all errors that a user can cause."""

    exit_code = 2


class InputError(MaskwrightError, ValueError):
    """Text, rows or arguments that cannot be used."""


class ConfigError(InputError):
    """A setting that is unknown, of the wrong type, or out of range."""


class MissingFileError(MaskwrightError, FileNotFoundError):
    """A path that does not exist."""


class ModelFolderError(MaskwrightError, ValueError):
    """A folder that is not a model, or a model that is not supported."""


class CorruptFileError(ModelFolderError):
    """A file whose content is cut off or differs from its manifest."""


class MissingExtraError(MaskwrightError, ImportError):
    """An optional dependency is not installed.

    need: what the user asked for, in words ("reading Parquet"); extra: the name of the extra that brings it.
    """

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} needs the optional extra '{extra}': run pip install 'maskwright[{extra}]'.")
        self.extra = extra


class StorageError(MaskwrightError, OSError):
    """The file system refused: disk full, read-only, no permission."""


class RunError(MaskwrightError, RuntimeError):
    """A run folder that another process holds, or that holds a run with other settings."""


class TrainingError(MaskwrightError, RuntimeError):
    """Training cannot go on: the loss or a gradient is not finite."""


@dataclass(frozen=True)
class RowError:
    """One bad row: file, physical line (from 1), column (a name, or None for the whole row) and reason."""

    file: str
    line: int
    column: str | None
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: column '{self.column}': {self.reason}" if self.column else f"{where}: {self.reason}"


class RowErrors(InputError):
    """All bad rows that were found; `.rows` holds them."""

    def __init__(self, rows: Sequence[RowError]) -> None:
        self.rows = list(rows)
        count = len(self.rows)
        shown = "\n".join(f"  {row}" for row in self.rows[:MAX_ROWS_SHOWN])
        more = f"\n  and {count - MAX_ROWS_SHOWN} more" if count > MAX_ROWS_SHOWN else ""
        noun = "row" if count == 1 else "rows"
        super().__init__(
            f"{count} bad {noun}; mend the file, or go on without them with --skip-bad-rows:\n{shown}{more}"
        )
