"""How the failure of one process ends all of them, with one message.

The first process that fails records it in the store where the processes meet; the recorded text is printed by that
process only. A process that finds a record ends with its exit code.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

from ...core.errors import InputError, MaskwrightError

RECORD, TOLD = "failure", "failure/told"
MESSAGE_SECONDS = 3.0  # that a process waits for the message of another before it ends


class Store(Protocol):
    """The methods of torch.distributed.Store that are used here."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...


@dataclass(frozen=True)
class Failure:
    """text: the message, "" for an interruption; code: exit code; rank: the process that recorded it, and prints the
    message; culprits: the processes that failed.
    """

    text: str
    code: int
    rank: int
    culprits: tuple[int, ...]


class PeerError(MaskwrightError):
    """Another process failed, and this one ends with its exit code. The message has been printed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.exit_code = failure.code


class PeerInputError(PeerError, InputError):
    """Another process found invalid input."""


def peer_error(failure: Failure) -> PeerError:
    """The exception of a process that ends because of the failure of another one."""
    return (PeerInputError if failure.code == InputError.exit_code else PeerError)(failure)


class FailureRecord:
    """The failure of the job, as seen by one process. store: of the job; rank: this process."""

    def __init__(self, store: Store, rank: int, say: Callable[[str], None] | None = None) -> None:
        self.store, self.rank = store, rank
        self._say = say or _say

    def find(self) -> Failure | None:
        """The recorded failure; None if there is none."""
        return _read(self.store.get(RECORD)) if self.store.check([RECORD]) else None

    def record(self, text: str, code: int, culprits: Sequence[int] = ()) -> Failure:
        """Record a failure, by default of this process, unless there is one; returns the recorded one."""
        mine = json.dumps(asdict(Failure(text, code, self.rank, tuple(culprits) or (self.rank,))))
        return _read(self.store.compare_set(RECORD, "", mine))

    def announce(self, failure: Failure) -> None:
        """Print the message if it is that of this process; otherwise wait until it is printed.

        The process that serves the store ends after the message is printed, so nothing is left to do without a store.
        """
        with suppress(RuntimeError):
            if self.store.check([TOLD]):
                return
            if failure.rank == self.rank:
                if failure.text:
                    self._say(failure.text)
                self.store.set(TOLD, "1")
                return
            ends = time.monotonic() + MESSAGE_SECONDS
            while not self.store.check([TOLD]) and time.monotonic() < ends:
                time.sleep(0.05)


def _read(data: bytes) -> Failure:
    found = json.loads(data)
    return Failure(found["text"], found["code"], found["rank"], tuple(found["culprits"]))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
