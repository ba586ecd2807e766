"""The processes of a training, which a launcher such as torchrun starts: how they meet, agree, and end together.

Values are JSON in collectives of torch.distributed; nothing is pickled. A collective of a step waits MASKWRIGHT_TIMEOUT
seconds for the other processes. One around the steps waits for as long as they live, because the first process may work
for long. The first process that fails records it in the store where they meet, and prints it. The connections to a
process that has ended are closed, so the others end as well: with the code of the record, or by a message of their own.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..core.config import differences
from ..core.errors import ConfigError, InputError, MaskwrightError, RunError, TrainingError, as_user_error
from ..core.memory import map_large_blocks
from ..core.program import Launch, launch_of
from ..core.progress import be_silent, note
from ..core.util import plural
from ..data.batch import Batch, deal, deal_equally_many, everything
from ..objectives.outcome import LossSums

MEET_SECONDS = 60  # for all processes to start
LEAVE_SECONDS = 3.0  # for the others to read of a failure in the store of the first process
TIMEOUT_SECONDS = 600.0  # of a collective in a step; MASKWRIGHT_TIMEOUT
PATIENCE = timedelta(days=7)
RECORD = "failure"  # key in the store
RESUME = "The last checkpoint is unchanged; rerun the same command to resume."

Made = TypeVar("Made")


class ConnectError(RunError):
    """The processes cannot reach each other, so each prints its own message."""


class PeerError(MaskwrightError):
    """Another process failed, and this one ends with its exit code. The message has been printed."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code


class PeerInputError(PeerError, InputError):
    """Another process found invalid input."""


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

    def gather(self, value: Any) -> list[Any]:
        """Returns the JSON values of all processes, by rank; a collective of a step."""
        return [value]

    def from_main(self, make: Callable[[], Any]) -> Any:
        """Returns the JSON value that the first process makes; the others wait for it."""
        return make()

    def main_first(self, make: Callable[[], Made]) -> Made:
        """Returns what `make` returns in each process; it runs in the first one before it runs in the others."""
        return make()

    def raise_failure(self) -> None:
        """Raises the failure of another process, if one has failed."""

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrites tensors by those of the first process."""

    def shared(self, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yields the named float32 CPU tensors of the first process in every process, one at a time."""
        yield from tensors.items()


class ProcessGroup(Group):
    """One of several processes. Use `joined`."""

    def __init__(self, launch: Launch) -> None:
        self.launch, self.rank, self.world = launch, launch.rank, launch.world
        self.step = 0  # that is computed, from 1
        self.device = torch.device("cpu")
        self._timeout = _timeout()
        os.environ.setdefault("MASTER_ADDR", launch.host)
        os.environ.setdefault("MASTER_PORT", str(launch.port))
        if launch.is_one_machine and sys.platform.startswith("linux"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # no other machine can connect
        try:
            self.store, *_ = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=MEET_SECONDS))))
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
                store=dist.PrefixStore("collectives", self.store),
                rank=self.rank,
                world_size=self.world,
                timeout=timedelta(seconds=self._timeout),
            )
            self._patient = dist.new_group(backend="gloo", timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            if "EADDRINUSE" in str(error) or "in use" in str(error):
                raise ConnectError(
                    f"Port {launch.port} is in use by another program: choose another one (MASTER_PORT, or "
                    "--master-port of torchrun)."
                ) from None
            raise ConnectError(
                f"{launch} cannot meet the others at {launch.host}:{launch.port} within {MEET_SECONDS} seconds: check "
                f"that all processes started, and that no other program uses the port "
                f"({str(error).splitlines()[0]})."
            ) from None

    def open(self, device: torch.device) -> None:
        """Use `device` for the sums of a step. Raises RunError for more processes than GPUs."""
        self.device = device
        if device.type == "cuda":
            if self.launch.local_rank >= torch.cuda.device_count():
                raise RunError(
                    f"{self.launch} has no GPU: this machine has {torch.cuda.device_count()} for "
                    f"{self.launch.local_world} processes. Start one process per GPU, or use --device cpu."
                )
            torch.cuda.set_device(self.launch.local_rank)

    # -- collectives -----------------------------------------------------------------------------------------------

    @contextmanager
    def talking(self) -> Iterator[None]:
        """Inside the block, an error of the connection becomes the failure that caused it."""
        try:
            yield
        except RuntimeError as error:
            text = str(error)
            if isinstance(error, MaskwrightError) or not (isinstance(error, dist.DistError) or "gloo" in text.lower()):
                raise
            raise self._cause("timed out" in text.lower()) from error

    def start_sum(self, values: Sequence[int]) -> Callable[[], list[int]]:
        """Starts adding up whole numbers over all processes. Returns a function that waits for the sums."""
        sums = torch.tensor(values, dtype=torch.int64, device=self.device)
        with self.talking():
            work = dist.all_reduce(sums, async_op=True)

        def wait() -> list[int]:
            with self.talking():
                work.wait()
                found: list[int] = sums.tolist()
            return found

        return wait

    def gather(self, value: Any, group: dist.ProcessGroup | None = None) -> list[Any]:
        data = json.dumps(value).encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        with self.talking():
            self._await(dist.all_gather(sizes, torch.tensor([len(data)]), group=group, async_op=True))
            longest = int(max(sizes))
            slots = [torch.empty(longest, dtype=torch.uint8) for _ in sizes]
            self._await(dist.all_gather(slots, _bytes(data.ljust(longest)), group=group, async_op=True))
        return [json.loads(bytes(slot.numpy())) for slot in slots]

    def exchange(self, value: Any) -> list[Any]:
        """The same outside a step, where a process may come late."""
        return self.gather(value, self._patient)

    def from_main(self, make: Callable[[], Any]) -> Any:
        made = make() if self.is_main else None
        data = json.dumps(made).encode()
        size = torch.tensor([len(data)])
        with self.talking():
            self._await(dist.broadcast(size, 0, group=self._patient, async_op=True))
            sent = _bytes(data) if self.is_main else torch.empty(int(size), dtype=torch.uint8)
            self._await(dist.broadcast(sent, 0, group=self._patient, async_op=True))
        return made if self.is_main else json.loads(bytes(sent.numpy()))

    def _await(self, work: Any) -> None:
        """Waits for a collective, or raises the failure of another process meanwhile."""
        pause = 0.001
        while not work.is_completed():
            self.raise_failure()
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        work.wait()

    def raise_failure(self) -> None:
        if self.store.check([RECORD]):
            raise self._cause()

    def main_first(self, make: Callable[[], Made]) -> Made:
        made = make() if self.is_main else None
        self.from_main(lambda: None)
        return make() if made is None else made

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        with torch.no_grad(), self.talking():
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)

    def shared(self, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        shapes: dict[str, list[int]] = self.from_main(lambda: {name: list(one.shape) for name, one in tensors.items()})
        for name, shape in shapes.items():
            tensor = tensors[name] if self.is_main else torch.empty(shape)
            self.broadcast([tensor])
            yield name, tensor

    # -- failures --------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Records the failure of this process, and prints it unless another one failed before."""
        if isinstance(error, PeerError):
            return
        known = as_user_error(error)
        name = "error" if known is not None else f"internal error: {type(error).__name__}"
        mine: list[Any] = [f"{name}: {self.launch}: {known or error}", 1 if known is None else known.exit_code]
        if isinstance(error, KeyboardInterrupt):
            mine = ["", 130]
        try:
            is_first = json.loads(self.store.compare_set(RECORD, "", json.dumps([*mine, self.rank])))[2] == self.rank
        except RuntimeError:  # the first process served the store, and was killed
            is_first = self.rank == 1
        if is_first and mine[0]:
            print(mine[0], file=sys.stderr, flush=True)

    def leave(self) -> None:
        """Ends the communication. A process that serves the store waits until the others have left."""
        if self.launch.has_store:
            return
        with suppress(RuntimeError):
            if self.rank:
                self.store.set(f"left/{self.rank}", "1")
                return
            ends = time.monotonic() + LEAVE_SECONDS
            while not self.store.check([f"left/{rank}" for rank in range(1, self.world)]) and time.monotonic() < ends:
                time.sleep(0.02)

    def await_failure(self) -> NoReturn:
        """Waits until another process has failed, which is certain."""
        while not self.store.check([RECORD]):
            time.sleep(0.02)
        raise self._cause()

    def _cause(self, is_late: bool = False) -> MaskwrightError:
        """The failure of another process: the recorded one, or that it has ended or hangs."""
        with suppress(RuntimeError):
            if self.store.check([RECORD]):
                text, code, _ = json.loads(self.store.get(RECORD))
                if code == 130:
                    raise KeyboardInterrupt
                return (PeerInputError if code == InputError.exit_code else PeerError)(text, code)
        what = "another process ended unexpectedly (killed, out of memory, or its machine does not answer)"
        if is_late:
            what = f"another process hangs: it was awaited for {self._timeout:g} seconds (MASKWRIGHT_TIMEOUT)"
        return TrainingError(f"{what}{f', in step {self.step}' if self.step else ''}. {RESUME}")


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _timeout() -> float:
    value = os.environ.get("MASKWRIGHT_TIMEOUT", str(TIMEOUT_SECONDS))
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"Environment variable MASKWRIGHT_TIMEOUT is '{value}', not a number of seconds.") from None


# -- Joins the processes ---------------------------------------------------------------------------------------------

_joined: ProcessGroup | None = None


@contextmanager
def joined(output: Path, device: torch.device) -> Iterator[Group]:
    """The processes of this training, from the launcher's environment variables; a single one without a launcher.

    output: the run folder. An error in one process ends the others. Notes, warnings and progress are printed by the
    first process only.
    """
    launch = launch_of()
    if launch is None or launch.world == 1:
        if launch is not None and launch.is_torchrun and not (output / "config.toml").exists():
            # A run that has begun may resume in one process: an elastic launcher shrinks.
            raise ConfigError(
                "torchrun started a single process: pass --nproc-per-node N before -m, or run maskwright without "
                "torchrun."
            )
        yield Group()
        return
    with member(launch) as group:
        group.open(device)
        yield group


@contextmanager
def member(launch: Launch) -> Iterator[ProcessGroup]:
    """This process as a member of its group; inside another such block, of the same one."""
    global _joined
    if _joined is not None:
        yield _joined
        return
    _joined = group = ProcessGroup(launch)
    try:
        with nullcontext() if group.is_main else be_silent(warnings=True):
            yield group
        group.from_main(lambda: None)  # nobody leaves before the first process has finished
    except BaseException as error:
        group.fail(error)
        raise
    finally:
        _joined = None
        group.leave()
    dist.destroy_process_group()


def run_member(launch: Launch, command: Callable[[], int], *, debug: bool) -> NoReturn:
    """Run `command`, which returns its exit code, and exit. Standard output is that of the first process.

    debug: print the traceback of an error. The process ends without Python's clean-up, which could wait for threads of
    a broken connection.
    """
    if launch.rank:
        sys.stdout = io.StringIO()
    try:
        with member(launch):
            code = command()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        known = as_user_error(error)
        code = 1 if known is None else known.exit_code
        if debug:
            traceback.print_exc()
        if isinstance(error, ConnectError):
            print(f"error: {error}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def check_processes(config: Any, group: Group) -> None:
    """Raise ConfigError when a step has fewer micro-batches than there are processes.

    config: with `accumulation`, the number of micro-batches, and `shard`: then freed memory is returned from now on.
    """
    if group.world > 1 and getattr(config, "shard", False):
        map_large_blocks()
    if group.world == 1 and getattr(config, "shard", False):
        note("--shard has no effect in a single process.")
    if config.accumulation < group.world:
        raise ConfigError(
            f"A step has {plural(config.accumulation, 'micro-batch', 'micro-batches')}, fewer than the {group.world} "
            f"processes: pass --accumulation {group.world} (with --restart for a run that has begun), or start fewer "
            "processes."
        )
    if config.accumulation % group.world:
        note(
            f"{config.accumulation} micro-batches are dealt to {group.world} processes: some compute more than others. "
            f"A multiple of {group.world} as --accumulation keeps all busy."
        )


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


def dealt(group: Group, equally_many: bool = False) -> Callable[[Sequence[int]], list[int]]:
    """Returns the function that deals the micro-batches of a step to this process; see `data.batch`.

    equally_many: as sharded training needs them.
    """
    if group.world == 1:
        return everything
    one = deal_equally_many if equally_many else deal
    return lambda tokens: one(tokens, group.world)[group.rank]


class JobModule(nn.Module):
    """A job's network as a module that computes the losses of a batch, for DistributedDataParallel and FSDP2.

    network: takes the place of the job's model while it computes.
    """

    def __init__(self, job: Any, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.job, self.plain = job, (job.model,)  # in a tuple: not a part of this module
        self.last: LossSums | None = None

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The losses by part; a dict, in which the wrappers find the tensors."""
        self.job.model = self.network
        try:
            self.last = self.job.outcome(batch)
        finally:
            self.job.model = self.plain[0]
        return dict(self.last.losses)
