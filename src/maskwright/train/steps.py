"""What a training step does around its backward passes: in one process, and together with others.

Together, the micro-batches of a step are dealt to the processes, the numbers of labels are added up during the first
forward pass, so that each loss is that of the whole step, and torch's DistributedDataParallel or FSDP2 adds up the
gradients.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..core.errors import InputError, TrainingError
from ..core.gpus import gpu_from_driver_name
from ..core.memory import peak_memory
from ..core.progress import warn
from ..core.util import plural
from ..data.batch import Batch, everything
from ..models import sizes as flops
from ..models.config import ModelConfig
from ..models.model import Model
from ..objectives.outcome import LossSums
from .checkpoint import moments_of
from .distributed import Group, JobModule, ProcessGroup, dealt
from .optimizer import RowGradients

if TYPE_CHECKING:
    from .sharding import ShardedNetwork

Totals = tuple[Mapping[str, int], int]  # labels of each part, and tokens, of a whole step
ADVICE = "training stopped; the last checkpoint is unchanged. Use a smaller --lr or more --warmup, then --restart."
WORD_PARTS = ("mlm", "clm")  # parts of the loss that score the vocabulary at each label
KINDS = ("data", "compute", "communication")
STRAGGLES = 1.1  # times the mean computing time of the other processes


# -- Speed: tokens and FLOPs per second, utilization (Chowdhery et al. 2022, appendix B), and where the time goes ----


def batch_flops(network: nn.Module, batch: Batch, counts: Mapping[str, int]) -> float:
    """FLOPs of the forward and backward pass of a batch: matrix products of real tokens, at their mean length.

    counts: labels by part of the loss. 0 for networks whose products are not counted: recurrent ones and
    encoder-decoders.
    """
    parts = [part for part in network.modules() if isinstance(part, Model)]
    length = round(batch.num_tokens / max(batch.num_sequences, 1))
    total = sum(batch.num_tokens * _per_token(part.config, length) for part in parts)
    scored = sum(counts.get(name, 0) for name in WORD_PARTS)
    return flops.TRAINING_PASSES * (total + (scored * flops.word_head_flops(parts[0].config) if total else 0))


@lru_cache(maxsize=1024)
def _per_token(config: ModelConfig, length: int) -> float:
    if config.recurrent is not None or config.num_decoder_layers:
        return 0.0
    return flops.linear_flops(config) + flops.attention_flops(config, max(length, 1))


def peak_flops(network: nn.Module) -> float | None:
    """The published peak of this GPU in the precision of a network, in FLOP/s; None if it is unknown or a CPU."""
    device = next(network.parameters()).device
    gpu = gpu_from_driver_name(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    part = next((part for part in network.modules() if isinstance(part, Model)), None)
    if gpu is None or part is None:
        return None
    return gpu.peak("bf16" if part.compute_dtype == torch.bfloat16 else "fp32")


class Clock:
    """Tokens per second of training, excluding evaluation and saving."""

    def __init__(self) -> None:
        self.tokens, self.seconds, self.since = 0, 0.0, time.monotonic()

    def add(self, tokens: int) -> None:
        now = time.monotonic()
        self.tokens += tokens
        self.seconds += now - self.since
        self.since = now

    def skip(self) -> None:
        self.since = time.monotonic()

    def read(self) -> dict[str, float]:
        rate = self.tokens / max(self.seconds, 1e-9)
        result = {"tokens_per_second": round(rate, 1), "seconds": round(self.seconds, 3)}
        self.tokens, self.seconds = 0, 0.0
        return result


class StepTimes:
    """Measures the steps of this process, and compares the processes. peak: FLOP/s of one device, None if unknown."""

    def __init__(self, group: Group, peak: float | None = None) -> None:
        self.group, self.peak = group, peak
        self.flops, self.steps = 0.0, 0  # since the last call of `read`
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._last = time.monotonic()
        self._totals = [[0.0] * len(KINDS) for _ in range(group.world)]
        self._memory: list[int] = []

    def lap(self, kind: str = "") -> None:
        """The time since the last lap was of this kind, or is not counted."""
        now = time.monotonic()
        self._seconds[kind] += now - self._last
        self._last = now

    def waited(self, seconds: float) -> None:
        """So many seconds of the current lap were spent waiting for the other processes."""
        self._seconds["communication"] += seconds
        self._last += seconds

    def read(self, seconds: float) -> dict[str, Any]:
        """What the log says about the steps since the last call, which took so many seconds.

        Means over the processes; with several, also which one computed longest.
        """
        on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        memory = round((torch.cuda.max_memory_allocated() if on_gpu else peak_memory()) / 1e6)
        found = self.group.gather([[self._seconds[kind] for kind in KINDS], self.flops, memory])
        steps = max(self.steps, 1)
        self._seconds.clear()
        self.steps, self.flops = 0, 0.0
        self._memory = [memory for _, _, memory in found]
        rate = sum(flops for _, flops, _ in found) / max(seconds, 1e-9)
        record: dict[str, Any] = {"memory_mb": self._memory}
        if rate:
            record["tflops_per_second"] = round(rate / 1e12, 6)
        if rate and self.peak is not None:
            record["mfu"] = round(rate / self.peak / self.group.world, 4)
        if self.group.world == 1:
            return record
        for total, (own_seconds, _, _) in zip(self._totals, found, strict=True):
            total[:] = [before + now for before, now in zip(total, own_seconds, strict=True)]
        means = [sum(column) / len(found) / steps for column in zip(*(seconds for seconds, _, _ in found), strict=True)]
        record |= {f"{kind}_seconds": round(mean, 6) for kind, mean in zip(KINDS, means, strict=True)}
        return {**record, "slowest_process": max(range(len(found)), key=lambda rank: found[rank][0][1])}

    def summary(self) -> str | None:
        """One line about all steps of several processes; None for a single one, or without a step."""
        whole = sum(map(sum, self._totals))
        if not whole:
            return None
        shares = [sum(column) / whole for column in zip(*self._totals, strict=True)]
        kinds = ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, shares, strict=True))
        computed = [total[1] for total in self._totals]
        slowest = max(range(len(computed)), key=computed.__getitem__)
        others = (sum(computed) - computed[slowest]) / (len(computed) - 1)
        straggler = (
            f"process {slowest} computes {computed[slowest] / others - 1:.0%} longer than the others"
            if computed[slowest] > STRAGGLES * others
            else "no process computes longer than the others"
        )
        memory = f"{min(self._memory):,} to {max(self._memory):,} MB of memory each"
        return f"{plural(len(computed), 'process', 'processes')}: {kinds} of the time; {straggler}; {memory}."


# -- Steps -----------------------------------------------------------------------------------------------------------


class LocalSteps:
    """The steps of a single process. rows: the sparse gradients of its tables; times: of the steps."""

    is_alone = True  # several processes agree on an error before they continue

    def __init__(self, rows: RowGradients, times: StepTimes | None = None) -> None:
        self.rows, self.times = rows, times or StepTimes(Group())

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        return list(enumerate(job.micro_batches(step)))

    def add_up(self, counts: Mapping[str, int], tokens: int) -> Callable[[], Totals]:
        """Returns a function that waits for the totals of the step. counts, tokens: of this process."""
        return lambda: (counts, tokens)

    def passes(self, is_last: bool) -> AbstractContextManager[Any]:
        """Around both passes of a micro-batch; after those of the last one, the gradients are added up."""
        return nullcontext()

    def outcome(self, job: Any, batch: Batch) -> LossSums:
        found: LossSums = job.outcome(batch)
        return found

    def backward(self, loss: Tensor, number: int) -> None:
        loss.backward()

    def finish(self) -> None:
        """After the last backward pass of a step: complete the gradients."""
        self.rows.spread()

    def clip(self, trained: Sequence[Tensor], most: float) -> Tensor:
        """Limit the norm of the gradient; returns what it was, a scalar."""
        return nn.utils.clip_grad_norm_(trained, most)

    def whole(self) -> AbstractContextManager[None]:
        """Inside the block, the job's network has its weights in the first process."""
        return nullcontext()

    def end(self) -> None:
        """After the last step: give the job's network its weights."""

    def moments(self, job: Any, optimizer: torch.optim.Optimizer) -> Callable[[], Mapping[str, Tensor]]:
        """Returns a function of the optimizer state (see `checkpoint.moments_of`), for the first process."""
        return partial(moments_of, job.model, optimizer)

    def clear(self) -> None:
        self.rows.clear()

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error of a step (from 0) whose gradient is not finite.

        repeat: computes the norm of this process's own gradient again.
        """
        return TrainingError(f"The gradient is not finite at step {step + 1}: {ADVICE}")

    def is_done(self, job: Any) -> bool:
        return bool(job.should_stop())

    def after_evaluation(self, evaluate: Callable[[], bool]) -> None:
        """Evaluate in the first process. evaluate: returns whether training ends early."""
        evaluate()


class SharedSteps(LocalSteps):
    """The steps of one of several processes. module: computes the losses, in a wrapper that adds up gradients."""

    is_alone = False

    def __init__(
        self, group: ProcessGroup, stop: StopRequest, times: StepTimes, module: JobModule, wrapped: Any
    ) -> None:
        super().__init__(RowGradients([]), times)
        self.group, self.stop, self.module, self.wrapped = group, stop, module, wrapped
        self._is_done = False
        self._parts: list[str] = []  # of the loss, in all processes so far

    @classmethod
    def of(
        cls, job: Any, group: ProcessGroup, stop: StopRequest, times: StepTimes, reduced: torch.dtype | None
    ) -> SharedSteps:
        """Those of data-parallel training. reduced: the type in which gradients are added up; None for their own."""
        module = JobModule(job, job.model)
        # A parameter that no process uses in a step keeps no gradient, so the optimizer skips it, as in one process.
        with group.talking(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 renames an argument
            wrapped = DistributedDataParallel(
                module, find_unused_parameters=True, broadcast_buffers=False, init_sync=False
            )

        def add_up(gradients: Tensor, is_last: bool) -> Any:
            if is_last:
                if gradients.is_cuda:
                    torch.cuda.current_stream().synchronize()  # so that computing is not counted as waiting
                times.lap("compute")
            work: Any = dist.all_reduce(gradients if reduced is None else gradients.to(reduced), async_op=True)
            return work.get_future().then(lambda sums: gradients.copy_(sums.value()[0]))

        wrapped.register_comm_hook(None, lambda _, bucket: add_up(bucket.buffer(), bucket.is_last()))
        return cls(group, stop, times, module, wrapped)

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        self.group.step = step + 1
        self.times.lap()
        found: list[tuple[int, Batch]] = job.numbered(step)
        self.times.lap("data")
        return found

    def add_up(self, counts: Mapping[str, int], tokens: int) -> Callable[[], Totals]:
        wait = self._start(counts, tokens)

        @cache
        def totals() -> Totals:
            began = time.monotonic()
            *labels, unknown, whole, wanted = wait()
            if unknown:  # in some process: all learn its name, in the same order
                names = {name for own in self.group.gather(list(counts)) for name in own}
                self._parts += sorted(names - set(self._parts))
                *labels, unknown, whole, wanted = self._start(counts, tokens)()
            self.stop.is_agreed = wanted > 0
            self.times.waited(time.monotonic() - began)
            return dict(zip(self._parts, labels, strict=True)), whole

        return totals

    def _start(self, counts: Mapping[str, int], tokens: int) -> Callable[[], list[int]]:
        """Start adding up the labels of each part, the parts without a place, the tokens, and the requests to stop."""
        labels = [counts.get(part, 0) for part in self._parts]
        return self.group.start_sum([*labels, len(counts.keys() - self._parts), tokens, self.stop.requested])

    def passes(self, is_last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if is_last else self.wrapped.no_sync()

    def outcome(self, job: Any, batch: Batch) -> LossSums:
        with self.group.talking():
            losses: dict[str, Tensor] = self.wrapped(batch)
        found, self.module.last = self.module.last, None
        assert found is not None
        found.losses = losses
        return found

    def backward(self, loss: Tensor, number: int) -> None:
        with self.group.talking():
            loss.backward()

    def finish(self) -> None:
        self.times.lap("communication")

    def clear(self) -> None:
        self.times.lap("compute")
        self.times.steps += 1

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error in the process whose own gradient is not finite; the other processes end with it."""
        is_fine = self.group.gather(bool(torch.tensor(repeat()).isfinite()))
        if self.group.rank not in [rank for rank, fine in enumerate(is_fine) if not fine][:1] and not all(is_fine):
            self.group.await_failure()
        return super().explain(step, repeat)

    def is_done(self, job: Any) -> bool:
        """Whether training ends early, as the first process decided after its last evaluation."""
        return self._is_done

    def after_evaluation(self, evaluate: Callable[[], bool]) -> None:
        self._is_done = bool(self.group.from_main(evaluate))


class ShardedSteps(SharedSteps):
    """The steps of one of several processes, each of which stores a part of the network.

    Gathering weights and adding up gradients are part of the time of computing.
    """

    def __init__(self, group: ProcessGroup, network: ShardedNetwork, stop: StopRequest, times: StepTimes) -> None:
        super().__init__(group, stop, times, network.module, network.module)
        self.network = network
        self._losses: list[Tensor] = []  # of this process in this step

    def passes(self, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients are added up after every micro-batch, so that each process stores only its part."""
        return nullcontext()

    def backward(self, loss: Tensor, number: int) -> None:
        """The backward pass. FSDP averages over the processes; a repeated micro-batch has no effect."""
        self._losses.append(loss.detach())
        super().backward(loss * (self.group.world if number >= 0 else 0), number)

    def finish(self) -> None:
        self.times.lap("compute")

    def clip(self, trained: Sequence[Tensor], most: float) -> Tensor:
        with self.group.talking():
            norm: Any = nn.utils.clip_grad_norm_(trained, most)
            whole: Tensor = norm.full_tensor()
            return whole

    def clear(self) -> None:
        super().clear()
        self._losses.clear()

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error in the process whose own loss is not finite, without a repetition, which needs all processes."""
        own = float(torch.stack(self._losses).sum())
        return super().explain(step, lambda: own)

    def whole(self) -> AbstractContextManager[None]:
        return self.network.whole()

    def end(self) -> None:
        self.network.gather()

    def moments(self, job: Any, optimizer: torch.optim.Optimizer) -> Callable[[], Mapping[str, Tensor]]:
        found = self.network.moments(optimizer)
        return lambda: found


@contextmanager
def steps_of(
    job: Any, group: Group, stop: StopRequest, reduced: torch.dtype | None = None, network: ShardedNetwork | None = None
) -> Iterator[LocalSteps]:
    """The steps of `job` in this process. reduced: see `SharedSteps.of`; network: of sharded training."""
    times = StepTimes(group, peak_flops(job.model))
    if not isinstance(group, ProcessGroup):
        with RowGradients.of(job.model) as rows:
            yield LocalSteps(rows, times)
        return
    job.deal = dealt(group, equally_many=network is not None)
    try:
        steps = (
            SharedSteps.of(job, group, stop, times, reduced)
            if network is None
            else ShardedSteps(group, network, stop, times)
        )
        steps.after_evaluation(job.should_stop)  # a resumed run may have ended early
        yield steps
    finally:
        job.deal = everything


def check_dealt(job: Any) -> None:
    """Raise InputError for a job whose batches depend on each other."""
    if not hasattr(job, "numbered") or getattr(job, "carries_state", False):
        raise InputError(
            "This training carries its state from batch to batch, which only one process can do: run it without "
            "torchrun, or add --set reset_state=true."
        )


# -- Prefetches the batches of the next step in a thread while a GPU computes this one ---------------------------------


Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Returns the result of `make(step)` for consecutive steps.

    ahead: whether the following step is prefetched. At most one step is held in memory.
    """

    def __init__(self, make: Callable[[int], Made], ahead: bool) -> None:
        self._make, self._ahead = make, ahead
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: tuple[int, Future[Made]] | None = None

    def take(self, step: int) -> Made:
        """The result for `step`. Exceptions of the thread are raised here."""
        if not self._ahead:
            return self._make(step)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0] != step:
            waiting[1].exception()  # another step was prefetched: wait for it and discard it
        made = waiting[1].result() if waiting is not None and waiting[0] == step else self._make(step)
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="maskwright-next-step")
        self._waiting = (step + 1, self._pool.submit(self._make, step + 1))
        return made

    def forget(self) -> None:
        """Discard the prefetched step: the next one is not its successor."""
        if self._waiting is not None:
            self._waiting[1].exception()
            self._waiting = None


REPEAT_SECONDS = 5.0  # within which a launcher passes on the signal that its processes have got already


class StopRequest:
    """Whether a stop was requested. is_shared: several processes under a launcher, which must agree on it first."""

    def __init__(self, is_shared: bool = False) -> None:
        self.requested, self.is_shared = False, is_shared
        self.is_agreed = False  # by several processes, at the same step
        self._since = 0.0

    @property
    def is_due(self) -> bool:
        return self.is_agreed if self.is_shared else self.requested

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: records the first request, exits on the second."""
        now = time.monotonic()
        if self.requested and self.is_shared and now - self._since < REPEAT_SECONDS:
            return
        if self.requested:
            os._exit(130)
        self.requested, self._since = True, now
        if self.is_shared:
            return
        warn("stopping after this step and saving; a second signal stops at once and loses the last steps.")


@contextmanager
def stop_on_signals(is_shared: bool = False) -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM in the main thread; elsewhere the caller's handlers stay. is_shared: see StopRequest."""
    request = StopRequest(is_shared)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request.handle) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:  # a handler that was not set from Python cannot be restored
                signal.signal(number, handler)
