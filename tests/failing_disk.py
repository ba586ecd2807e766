"""A file system that stops in the middle of its work."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from maskwright.core import storage


class StoppingFileSystem(storage.FileSystem):
    """Counts the calls that change the disk, and calls `stop` at the n-th; a write is torn first."""

    def __init__(self, at: int | None, stop: Callable[[], None]) -> None:
        self.at, self.stop, self.calls = at, stop, 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.stop()

    def write(self, handle: IO[Any], data: bytes) -> None:
        if self.calls + 1 == self.at:  # half of it reaches the disk
            handle.write(data[: len(data) // 2])
            handle.flush()
        self._count()
        super().write(handle, data)

    def sync(self, handle: IO[Any]) -> None:
        self._count()
        super().sync(handle)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)


class FailingFileSystem(StoppingFileSystem):
    """Fails at the n-th call, opening included, as a full or broken disk would."""

    def __init__(self, fail_at: int, code: int = errno.ENOSPC) -> None:
        super().__init__(fail_at, self._fail)
        self.code = code

    def _fail(self) -> None:
        raise OSError(self.code, os.strerror(self.code))

    def open(self, path: Path, mode: str) -> IO[Any]:
        self._count()
        return super().open(path, mode)

    def sync_folder(self, folder: Path) -> None:
        self._count()
        super().sync_folder(folder)
