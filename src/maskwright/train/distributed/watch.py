"""Watches the other processes from a thread: ends this one when another fails, dies or hangs.

Every process counts up a number in the store every two seconds. A process that waits for the others reads their
numbers: one that no longer counts is dead, and one that counts but has not come to the same collective for a long time
hangs. A thread is needed because a process that waits in a collective cannot do anything else.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import NoReturn, Protocol

from ...core.errors import ConfigError, InputError, MaskwrightError, TrainingError
from ...core.program import Launch

# -- How the failure of one process ends all of them, with one message -----------------------------------------------
#
# The first process that fails records it in the store where the processes meet; the recorded text is printed by that
# process only. A process that finds a record ends with its exit code.


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


BEAT_SECONDS = 2.0
SUSPICIOUS_SECONDS = 5.0  # of waiting, before the others are looked at
DEAD_SECONDS = 20.0  # without a beat
DEAD_AFTER_ERROR_SECONDS = 6.0  # the same, after a connection was closed
HANGING_SECONDS = 30.0  # of waiting in a step; MASKWRIGHT_TIMEOUT
SLOWEST = 3.0  # a step may take this many times the longest one so far
GRACE_SECONDS = 10.0  # for the main thread to end by itself
READ_SECONDS = 3 * BEAT_SECONDS
DIED = "ended unexpectedly (killed, out of memory, or its machine does not answer)"
RESUME = "The last checkpoint is unchanged; rerun the same command to resume."


@dataclass
class Peers:
    """The beats of the other processes. seen: last beat, and when it was first seen, by process."""

    store: Store
    launch: Launch
    seen: dict[int, tuple[int, float]] = field(default_factory=dict)
    is_blocked: dict[int, bool] = field(default_factory=dict)

    def look(self) -> None:
        """Read the beats."""
        now = time.monotonic()
        for rank in range(self.launch.world):
            if rank == self.launch.rank:
                continue
            count, blocked = -1, False
            if self.store.check([f"beat/{rank}"]):
                text = self.store.get(f"beat/{rank}").decode().split()
                count, blocked = int(text[0]), text[1] == "blocked"
            self.is_blocked[rank] = blocked
            if rank not in self.seen or self.seen[rank][0] != count:
                self.seen[rank] = (count, now)

    def silent(self, seconds: float) -> list[int]:
        """The processes without a beat for that long."""
        now = time.monotonic()
        return [rank for rank, (_, since) in sorted(self.seen.items()) if now - since > seconds]

    def forget(self) -> None:
        """Start looking from scratch."""
        self.seen.clear()


class Watch:
    """The thread. Use `start` and `stop`; wrap waits with `blocked` (in a collective) or `waiting` (anything else)."""

    def __init__(self, launch: Launch, store: Store, record: FailureRecord) -> None:
        self.launch, self.store, self.record = launch, store, record
        self.failure: Failure | None = None
        self.longest_step = 0.0  # seconds of computing
        self.step = 0
        self.is_ending = False  # whether the main thread is about to end
        self._since: float | None = None  # since when the main thread waits
        self._is_blocked = self._has_error = False
        self._peers = Peers(store, launch)
        self._ended = threading.Event()
        self._ending = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="maskwright-watch", daemon=True)
        self._limit = _limit_seconds()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self.is_ending = True
        self._ended.set()
        self._thread.join(timeout=BEAT_SECONDS + 1)

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """A wait in a collective, which nothing can interrupt.

        A connection error becomes the failure that caused it.
        """
        self._is_blocked, self._since = True, time.monotonic()
        try:
            yield
        except RuntimeError as error:
            self._explain(error)
        finally:
            self._since, self._is_blocked = None, False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Another wait, for as long as the other process lives."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def find_failure(self, seconds: float) -> Failure | None:
        """The failure that will be recorded within so many seconds, by another process or because one is dead."""
        self._has_error, self._since = True, self._since or time.monotonic()
        ends = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < ends:
            time.sleep(0.1)
        self._has_error = False
        return self.failure

    def _explain(self, error: RuntimeError) -> None:
        """Wait for the thread to end this process; if it finds nothing, raise the error of the connection."""
        self.find_failure(DEAD_SECONDS + GRACE_SECONDS)
        time.sleep(GRACE_SECONDS if self.failure is not None else 0)
        raise TrainingError(
            f"The connection between the processes failed in step {self.step} ({str(error).splitlines()[0]}). {RESUME}"
        ) from error

    def _run(self) -> None:
        count = 0
        try:
            while not self._ended.wait(BEAT_SECONDS if count else 0):
                count += 1
                self.store.set(f"beat/{self.launch.rank}", f"{count} {'blocked' if self._is_blocked else 'working'}")
                self.failure = self.record.find() or self._suspect()
                if self.failure is not None:
                    self._end(self.failure)
                    return
        except RuntimeError:  # the store is gone, and with it the launcher or the first process
            if not self._ended.is_set():
                self.end_without_store()

    def _let_others_read(self) -> None:
        """Before a process that serves the store ends by a failure: wait until the others have read of it."""
        if self.launch.has_store:
            return
        self.store.set(f"left/{self.launch.rank}", "1")
        names = [f"left/{rank}" for rank in range(self.launch.world)]
        ends = time.monotonic() + READ_SECONDS
        while self.launch.rank == 0 and not self.store.check(names) and time.monotonic() < ends:
            time.sleep(0.05)

    def end_without_store(self) -> NoReturn:
        """End this process because the store is gone; one process prints whose end that was."""
        with self._ending:  # held until the end, so the main thread and this one do not both print
            world = self.launch.world
            if self.failure is None and not self.launch.has_store and self.launch.rank == 1:
                print(f"error: process 0 of {world} {DIED}. {RESUME}", file=sys.stderr, flush=True)
            if self.failure is None and self.launch.has_store and self.launch.rank == 0:
                print(f"error: the launcher of the {world} processes ended. {RESUME}", file=sys.stderr, flush=True)
            os._exit(2)

    def _suspect(self) -> Failure | None:
        """A failure if this process has waited for long and another one is dead or hangs."""
        since = self._since
        if since is None or (not self._has_error and time.monotonic() - since < SUSPICIOUS_SECONDS):
            self._peers.forget()
            return None
        self._peers.look()
        waited = time.monotonic() - since
        dead = self._peers.silent(DEAD_AFTER_ERROR_SECONDS if self._has_error else DEAD_SECONDS)
        if dead:
            return self._record(dead, DIED)
        if not self._is_blocked or waited < max(self._limit, SLOWEST * self.longest_step):
            return None
        late = [rank for rank, blocked in sorted(self._peers.is_blocked.items()) if not blocked]
        doing = f"hangs: the others have waited {waited:.0f} seconds for it in step {self.step}"
        return self._record(late or list(range(self.launch.world)), doing)

    def _record(self, ranks: list[int], what: str) -> Failure:
        names = ", ".join(map(str, ranks))
        who = f"process {names}" if len(ranks) == 1 else f"each of processes {names}"
        return self.record.record(f"error: {who} of {self.launch.world} {what}. {RESUME}", 2, ranks)

    def _end(self, failure: Failure) -> None:
        """End this process: by an interruption of its main thread if that runs Python, else at once."""
        if self.is_ending:
            return
        self.record.announce(failure)
        self._let_others_read()
        if not self._is_blocked:
            if self._since is None and not self.is_ending:  # a wait ends by itself
                _thread.interrupt_main()
            ends = time.monotonic() + GRACE_SECONDS
            while not self._is_blocked and time.monotonic() < ends and not self.is_ending:
                time.sleep(0.1)
        if not self.is_ending:
            sys.stderr.flush()
            os._exit(failure.code)


def _limit_seconds() -> float:
    """MASKWRIGHT_TIMEOUT in seconds."""
    value = os.environ.get("MASKWRIGHT_TIMEOUT", str(HANGING_SECONDS))
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"Environment variable MASKWRIGHT_TIMEOUT is '{value}', not a number of seconds.") from None
