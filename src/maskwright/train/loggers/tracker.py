"""What loggers of tracking programs share: such a program has no rollback, so repeated steps are not sent again.

A small file in the run folder has the name of the run in the program and the number of records sent. The records of a
resumed run are those that it had before, so skipping the first ones sent loses nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from ...core import storage
from ...core.errors import MissingExtraError
from ...core.progress import warn


class Tracker(ABC):
    """A logger of a tracking program. name: of its extra and of its module."""

    name: ClassVar[str]

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder, self.recipe = folder, recipe
        self.path = folder / f"{self.name}.json"
        self._run: str | None = None
        self._sent = 0
        self._position = 0  # records that the log has
        self._is_broken = False
        if self.path.exists():
            state = storage.read_json(self.path)
            self._run, self._sent = state["run"], state["sent"]
            self._position = self._sent

    def check(self) -> None:
        """Raise MissingExtraError if the package is missing."""
        if find_spec(self.name) is None:
            raise MissingExtraError(f"--log {self.name}", self.name)

    def append(self, record: Mapping[str, Any]) -> None:
        """Send a record, unless it was sent before the log was rolled back."""
        self._position += 1
        if self._position > self._sent:
            self._send([record])

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Send those of the records that were not sent."""
        records = list(records)
        self._position = len(records)
        if records[self._sent :]:
            self._send(records[self._sent :])

    def close(self, is_finished: bool) -> None:
        """End the run in the program, if this process sent anything."""
        self._attempt(lambda: self.end(is_finished))

    @abstractmethod
    def begin(self, run: str | None) -> str:
        """Begin a run, or continue `run`. Returns its name in the program."""

    @abstractmethod
    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Send records, after `begin`."""

    @abstractmethod
    def end(self, is_finished: bool) -> None:
        """After the last record, also if none was sent. is_finished: whether the run is."""

    def _send(self, records: Sequence[Mapping[str, Any]]) -> None:
        def attempt() -> None:
            self._run = self.begin(self._run)
            self.send(records)
            self._sent += len(records)
            storage.write_json(self.path, {"run": self._run, "sent": self._sent})

        self._attempt(attempt)

    def _attempt(self, action: Any) -> None:
        """A failure of the program is none of the training: warn once; a resumed run sends what is missing."""
        if self._is_broken:
            return
        try:
            action()
        except Exception as error:  # whatever the program raises
            self._is_broken = True
            warn(f"{self.name} failed ({error}): training continues without it, and the log has everything.")
