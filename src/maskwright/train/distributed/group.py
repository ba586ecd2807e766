"""The processes of a training. One process needs no communication; several meet in a store and in torch.distributed.

Two kinds of communication: collectives inside a step, which are fast (`start_sum`, `gather`, `broadcast`), and messages
by the store around the steps, where one process may work for long and the others wait (`exchange`, `from_main`). Values
are JSON; nothing is pickled.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...core.config import differences
from ...core.errors import ConfigError, RunError
from ...core.program import Launch
from ...data.deal import deal, deal_equally_many, everything
from .watch import Failure, FailureRecord, Watch, peer_error

# -- Connections between processes: the store where they meet, and the collectives of torch.distributed --------------


MEET_SECONDS = 60  # for all processes to start
# Of one collective. The watch ends a process that hangs much earlier; a first process that saves may take long.
COLLECTIVE_LIMIT = timedelta(days=7)


class ConnectError(RunError):
    """The processes cannot reach each other, so each prints its own message."""


def connect(launch: Launch, *, serve: bool = True) -> dist.Store:
    """A new connection to the store of the job. serve: let the first process serve it, unless the launcher does.

    Raises ConnectError when the address is in use, or cannot be reached.
    """
    is_server = serve and launch.rank == 0 and not launch.has_store
    place = f"{launch.host}:{launch.port}"
    try:
        store = dist.TCPStore(
            launch.host,
            launch.port,
            launch.world,
            is_master=is_server,
            timeout=timedelta(seconds=MEET_SECONDS),
            wait_for_workers=False,
            multi_tenant=False,
        )
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error) or "in use" in str(error):
            raise ConnectError(
                f"Port {launch.port} is in use by another program: choose another one (MASTER_PORT, or --master-port "
                "of torchrun)."
            ) from None
        raise ConnectError(
            f"{launch} cannot reach the first process at {place} within {MEET_SECONDS} seconds: check that all "
            "processes started, and that no other program uses the port."
        ) from None
    return dist.PrefixStore(f"maskwright/{launch.world}/{launch.attempt}", store)


def open_collectives(launch: Launch, store: dist.Store, device: torch.device) -> None:
    """Open the collectives of all processes: gloo for tensors on the CPU, and NCCL on GPUs."""
    backend = "gloo"
    if device.type == "cuda":
        if launch.local_rank >= torch.cuda.device_count():
            raise RunError(
                f"{launch} has no GPU: this machine has {torch.cuda.device_count()} for {launch.local_world} "
                "processes. Start one process per GPU, or use --device cpu."
            )
        torch.cuda.set_device(launch.local_rank)
        backend = "cpu:gloo,cuda:nccl"
    try:
        with _loopback(launch):
            dist.init_process_group(
                backend, store=store, rank=launch.rank, world_size=launch.world, timeout=COLLECTIVE_LIMIT
            )
    except RuntimeError as error:
        raise RunError(f"{launch} cannot connect to the others ({str(error).splitlines()[0]}).") from None


@contextmanager
def _loopback(launch: Launch) -> Iterator[None]:
    """On one machine, let gloo listen on the loopback interface only, unless the environment names another one."""
    name = "GLOO_SOCKET_IFNAME"
    if not launch.is_one_machine or name in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ[name] = "lo"
    try:
        yield
    finally:
        del os.environ[name]


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


# -- Checks that all processes have the same versions, settings and data, before they compute ------------------------


def check_same(group: Group, what: str, facts: dict[str, Any]) -> None:
    """Raise ConfigError in the first process whose facts differ from those of process 0; end the others.

    what: the facts in words, for the message.
    """
    if not isinstance(group, ProcessGroup):
        return
    found = group.exchange(facts)
    differing = [rank for rank, other in enumerate(found) if other != found[0]]
    if not differing:
        return
    if group.rank != differing[0]:
        group.await_failure()
    changes = "; ".join(differences(found[0], json.loads(json.dumps(facts))))
    raise ConfigError(
        f"The {what} differ from those of process 0: {changes}. Start all processes with the same command, files and "
        "versions."
    )


# -- Gives all processes the weights and the optimizer state of the first one ----------------------------------------


def share_weights(group: Group, model: nn.Module) -> None:
    """Overwrite weights and buffers by those of the first process, which has read the checkpoint."""
    if group.world > 1:
        group.broadcast([*model.parameters(), *model.buffers()])


def share_moments(group: Group, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Overwrite the optimizer state by that of the first process."""
    if group.world == 1:
        return
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}

    def describe() -> list[tuple[str, str, list[int]]]:
        return [
            (name, moment, list(value.shape))
            for name, parameter in named.items()
            for moment, value in optimizer.state.get(parameter, {}).items()
        ]

    tensors = []
    found: list[Any] = group.from_main(describe)
    for name, moment, shape in found:
        state = optimizer.state[named[name]]
        if moment not in state:
            device = torch.device("cpu") if moment == "step" else named[name].device
            state[moment] = torch.zeros(shape, dtype=torch.float32, device=device)
        tensors.append(state[moment])
    group.broadcast(tensors)
