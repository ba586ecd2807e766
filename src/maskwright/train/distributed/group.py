"""The processes of a training. One process needs no communication; several meet in a store and in torch.distributed.

Two kinds of communication: collectives inside a step, which are fast (`start_sum`, `gather`, `broadcast`), and messages
by the store around the steps, where one process may work for long and the others wait (`exchange`, `from_main`). Values
are JSON; nothing is pickled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ...core.errors import RunError
from ...core.processes import Launch
from ...data.deal import deal, deal_equally_many, everything
from .collectives import connect, open_collectives
from .failure import Failure, FailureRecord, peer_error
from .watch import Watch

Made = TypeVar("Made")
SLOT_BYTES = 1020  # of a value that one collective gathers
_LENGTH_BYTES = 4
CLOSE_SECONDS = 20.0  # for the others to leave, after success
FAILED_SECONDS = 5.0  # the same, after a failure
SETTLE_SECONDS = 12.0  # to tell an interruption of all processes from the death of one


class Group:
    """One process. The base of `ProcessGroup`.

    Attributes:
        rank: Number of this process.
        world: Number of processes.
    """

    rank, world = 0, 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def deal(self, tokens: Sequence[int]) -> list[int]:
        """The micro-batches of this process; see `data.deal`."""
        return everything(tokens)

    def gather(self, value: Any) -> list[Any]:
        """The JSON values of all processes, by rank; a collective of a step."""
        return [value]

    def exchange(self, value: Any) -> list[Any]:
        """The JSON values of all processes, by rank; outside a step."""
        return [value]

    def from_main(self, make: Callable[[], Any]) -> Any:
        """The JSON value that the first process makes; the others wait for it."""
        return make()

    def main_first(self, make: Callable[[], Made]) -> Made:
        """What `make` returns in each process; it runs in the first one before it runs in the others."""
        return make()

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors by those of the first process."""


class ProcessGroup(Group):
    """One of several processes. Use `current.joined`."""

    def __init__(self, launch: Launch) -> None:
        self.launch, self.rank, self.world = launch, launch.rank, launch.world
        self.store = connect(launch)
        watched = connect(launch, serve=False)  # a connection serves one thread
        self.record = FailureRecord(self.store, self.rank)
        self.watch = Watch(launch, watched, FailureRecord(watched, self.rank))
        self._number = 0
        self._is_open = False
        self._device = torch.device("cpu")
        self.watch.start()

    def open(self, device: torch.device) -> None:
        """Open the collectives, for tensors on the CPU and on `device`."""
        if not self._is_open:
            with self.watch.waiting():
                open_collectives(self.launch, self.store, device)
            self._is_open, self._device = True, device

    def close(self) -> None:
        """End the communication, after success."""
        self.leave(CLOSE_SECONDS)
        if self._is_open:
            dist.destroy_process_group()

    def leave(self, seconds: float) -> None:
        """Stop the watch. A process that serves the store waits, at most so long, until the others have left."""
        self.watch.stop()
        if self.launch.has_store:
            return
        if self.rank:
            with suppress(RuntimeError):  # the first process, which serves the store, has waited long enough
                self.store.set(f"left/{self.rank}", "1")
            return
        names = [f"left/{rank}" for rank in range(1, self.world)]
        ends = time.monotonic() + seconds
        while not self.store.check(names) and time.monotonic() < ends:
            time.sleep(0.02)

    def deal(self, tokens: Sequence[int]) -> list[int]:
        """The micro-batches of this process."""
        return deal(tokens, self.world)[self.rank]

    def deal_equally_many(self, tokens: Sequence[int]) -> list[int]:
        """The micro-batches of this process in sharded training."""
        return deal_equally_many(tokens, self.world)[self.rank]

    # -- in a step -------------------------------------------------------------------------------------------------

    def start_sum(self, values: Sequence[int]) -> Callable[[], list[int]]:
        """Start adding up whole numbers over all processes. Returns a function that waits for the sums.

        On GPUs, NCCL adds up small messages along a tree, so the time grows with the logarithm of the processes.
        """
        sums = torch.tensor(values, dtype=torch.int64, device=self._device)
        with self.watch.blocked():
            work = dist.all_reduce(sums, async_op=True)

        def wait() -> list[int]:
            with self.watch.blocked():
                work.wait()
                found: list[int] = sums.tolist()
            return found

        return wait

    def gather(self, value: Any) -> list[Any]:
        """The JSON values of all processes, by rank."""
        data = json.dumps(value).encode()
        slots = self._gather_bytes(data[:SLOT_BYTES], len(data), SLOT_BYTES)
        longest = max(length for length, _ in slots)
        if longest > SLOT_BYTES:
            slots = self._gather_bytes(data, len(data), longest)
        return [json.loads(own[:length]) for length, own in slots]

    def _gather_bytes(self, data: bytes, length: int, size: int) -> list[tuple[int, bytes]]:
        """Gather slots of `size` bytes, each with the length of the whole value before it."""
        own = length.to_bytes(_LENGTH_BYTES, "little") + data.ljust(size, b"\0")
        sent = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        received = [torch.empty_like(sent) for _ in range(self.world)]
        with self.watch.blocked():
            dist.all_gather(received, sent)
        rows = [bytes(slot.numpy()) for slot in received]
        return [(int.from_bytes(row[:_LENGTH_BYTES], "little"), row[_LENGTH_BYTES:]) for row in rows]

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors by those of the first process."""
        with torch.no_grad(), self.watch.blocked():
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)

    # -- around the steps ------------------------------------------------------------------------------------------

    def exchange(self, value: Any) -> list[Any]:
        """The JSON values of all processes, by rank."""
        self._number += 1
        names = [f"exchange/{self._number}/{rank}" for rank in range(self.world)]
        self.store.set(names[self.rank], json.dumps(value))
        self._await(names)
        return [json.loads(self.store.get(name)) for name in names]

    def from_main(self, make: Callable[[], Any]) -> Any:
        """The JSON value that the first process makes."""
        self._number += 1
        name = f"main/{self._number}"
        if self.is_main:
            made = make()
            self.store.set(name, json.dumps(made))
            return made
        self._await([name])
        return json.loads(self.store.get(name))

    def main_first(self, make: Callable[[], Made]) -> Made:
        """What `make` returns in each process; it runs in the first one before it runs in the others."""
        if not self.is_main:
            self.from_main(lambda: None)
            return make()
        made = make()
        self.from_main(lambda: None)
        return made

    def _await(self, names: list[str]) -> None:
        """Wait until the store has these keys. Raises PeerError when another process fails meanwhile."""
        pause = 0.001
        with self.watch.waiting():
            while not self._has(names):
                if self.watch.failure is not None:
                    raise peer_error(self.watch.failure)
                time.sleep(pause)
                pause = min(pause * 1.5, 0.1)

    def _has(self, names: list[str]) -> bool:
        """Whether the store has these keys. Without a store this process ends."""
        try:
            return self.store.check(names)
        except RuntimeError:
            self.watch.end_without_store()

    # -- failures --------------------------------------------------------------------------------------------------

    def fail(self, text: str, code: int) -> Failure:
        """Record the failure of this process, unless another one failed before; returns the recorded one."""
        self.watch.is_ending = True
        with suppress(RuntimeError):
            return self.record.record(text, code)
        # The first process, which serves the store, has ended because of a failure that was recorded before.
        return self.watch.failure or Failure(text, code, 0, (0,))

    def interrupted(self) -> Failure:
        """The reason of an interruption: a failure of another process, its death, or a signal to all of them."""
        self.watch.is_ending = True
        names = [f"interrupted/{rank}" for rank in range(self.world)]
        ends = time.monotonic() + SETTLE_SECONDS
        with suppress(RuntimeError):  # the store has ended with the first process
            self.store.set(names[self.rank], "1")
            while self.watch.failure is None and not self.store.check(names) and time.monotonic() < ends:
                found = self.record.find() or self.watch.find_failure(0.3)
                if found is not None:
                    return found
        return self.watch.failure or self.fail("", 130)

    def await_failure(self) -> None:
        """Wait until this process is ended by the failure of another one, which is certain."""
        failure = self.watch.find_failure(SETTLE_SECONDS * 4)
        raise peer_error(failure) if failure is not None else RunError("Another process failed without a message.")
