"""What a training step does around its backward passes: in one process, and together with others.

Together, the micro-batches of a step are dealt to the processes, the numbers of labels are added up during the first
forward pass, so that each loss is that of the whole step, and the gradients are added up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...core.errors import InputError, TrainingError
from ...data.batch import Batch
from ...data.deal import Deal, everything
from ...models.device import DTYPES
from ...objectives.outcome import LossSums
from ..checkpoint import moments_of
from ..optimizer import RowGradients
from ..settings import ReducePrecision
from ..signals import StopRequest
from ..step_flops import peak_flops
from .group import Group, ProcessGroup
from .times import StepTimes
from .watch import Watch

if TYPE_CHECKING:
    from .sharding import ShardedNetwork

# -- Adds up the gradients of all processes, in buckets, while the backward pass still runs --------------------------
#
# A bucket is sent as soon as its gradients are complete in the last micro-batch of a step. All processes send the
# buckets in the same order: that of the parameters from the last to the first, as the backward pass reaches them. After
# its gradients, a bucket has one number per parameter: how many processes have a gradient for it. A parameter for which
# none has a gradient keeps None, so the optimizer skips it as it does in a single process.


BUCKET_BYTES = 25 << 20


@dataclass
class Bucket:
    """Parameters of one dtype and device that are reduced together.

    waiting: those without a complete gradient yet; reduced: the type in which they are added up, None for their own.
    """

    parameters: list[nn.Parameter]
    reduced: torch.dtype | None = None
    waiting: set[int] = field(default_factory=set)
    sent: Tensor | None = None
    work: dist.Work | None = None

    def send(self) -> None:
        """Start the reduction of the gradients; missing ones are zero."""
        first = self.parameters[0]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.sent = torch.zeros(sum(sizes) + len(sizes), dtype=self.reduced or first.dtype, device=first.device)
        *parts, present = self.sent.split([*sizes, len(sizes)])
        for number, (parameter, part) in enumerate(zip(self.parameters, parts, strict=True)):
            if parameter.grad is not None:
                part.copy_(parameter.grad.reshape(-1))
                present[number] = 1
        self.work = dist.all_reduce(self.sent, async_op=True)

    def receive(self) -> None:
        """Wait for the sum, and set the gradients to it."""
        assert self.sent is not None and self.work is not None
        self.work.wait()
        sizes = [parameter.numel() for parameter in self.parameters]
        *parts, present = self.sent.split([*sizes, len(sizes)])
        for parameter, part, count in zip(self.parameters, parts, present.tolist(), strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype) if count else None
        self.sent = self.work = None


class GradientSum:
    """The reduction of a model's gradients. Use `with GradientSum.of(model, watch) as gradients`."""

    def __init__(self, buckets: list[Bucket], watch: Watch) -> None:
        self.buckets, self.watch = buckets, watch
        self._next: int | None = None  # the first bucket that is not sent; None outside the last micro-batch
        self._bucket_of = {id(one): bucket for bucket in buckets for one in bucket.parameters}

    @classmethod
    @contextmanager
    def of(cls, model: nn.Module, watch: Watch, reduced: torch.dtype | None = None) -> Iterator[GradientSum]:
        """Follow the trained parameters of `model` inside the block. reduced: see Bucket."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = cls(list(_buckets(parameters[::-1], reduced)), watch)
        hooks = [parameter.register_post_accumulate_grad_hook(gradients._complete) for parameter in parameters]
        try:
            yield gradients
        finally:
            for hook in hooks:
                hook.remove()

    def expect_last(self) -> None:
        """Before the backward pass of the last micro-batch: send each bucket once it is complete."""
        self._next = 0
        for bucket in self.buckets:
            bucket.waiting = {id(one) for one in bucket.parameters}

    def finish(self) -> None:
        """After the backward passes: send the rest, wait, and set all gradients to their sums."""
        with self.watch.blocked():
            for bucket in self.buckets[self._next or 0 :]:
                bucket.send()
            self._next = None
            for bucket in self.buckets:
                bucket.receive()

    def _complete(self, parameter: Tensor) -> None:
        if self._next is None:
            return
        self._bucket_of[id(parameter)].waiting.discard(id(parameter))
        while self._next < len(self.buckets) and not self.buckets[self._next].waiting:
            with self.watch.blocked():
                self.buckets[self._next].send()
            self._next += 1


def _buckets(parameters: list[nn.Parameter], reduced: torch.dtype | None) -> Iterator[Bucket]:
    """Neighboring parameters of one dtype and device, up to BUCKET_BYTES."""
    own: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        kind = (parameter.dtype, parameter.device)
        if own and (size >= BUCKET_BYTES or kind != (own[0].dtype, own[0].device)):
            yield Bucket(own, reduced=reduced)
            own, size = [], 0
        own.append(parameter)
        size += parameter.numel() * parameter.element_size()
    if own:
        yield Bucket(own, reduced=reduced)


Totals = tuple[Mapping[str, int], int]  # labels of each part, and tokens, of a whole step
ADVICE = "training stopped; the last checkpoint is unchanged. Use a smaller --lr or more --warmup, then --restart."


class Dealt(Protocol):
    """The methods of a job whose micro-batches can be dealt."""

    deal: Deal

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of this process, with their numbers in the step."""

    def fingerprint(self) -> str:
        """A digest of the training data."""


class LocalSteps:
    """The steps of a single process. rows: the sparse gradients of its tables; times: of the steps."""

    def __init__(self, rows: RowGradients, times: StepTimes | None = None) -> None:
        self.rows, self.times = rows, times or StepTimes(Group())

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of a step with their numbers."""
        return list(enumerate(job.micro_batches(step)))

    def add_up(self, counts: Mapping[str, int], tokens: int) -> Callable[[], Totals]:
        """Returns a function that waits for the totals of the step. counts, tokens: of this process."""
        return lambda: (counts, tokens)

    def before_last(self) -> None:
        """Before the last backward pass of a step."""

    def outcome(self, job: Any, batch: Batch) -> LossSums:
        """What the job computes for a batch."""
        found: LossSums = job.outcome(batch)
        return found

    def backward(self, loss: Tensor, number: int) -> None:
        """The backward pass of a micro-batch."""
        loss.backward()

    def finish(self) -> None:
        """After the last backward pass of a step: complete the gradients."""
        self.rows.spread()

    def clip(self, trained: Sequence[Tensor], most: float) -> float:
        """Limit the norm of the gradient; returns what it was."""
        return float(nn.utils.clip_grad_norm_(trained, most))

    def whole(self) -> AbstractContextManager[None]:
        """Inside the block, the job's network has its weights in the first process."""
        return nullcontext()

    def end(self) -> None:
        """After the last step: give the job's network its weights."""

    def moments(self, job: Any, optimizer: torch.optim.Optimizer) -> Callable[[], Mapping[str, Tensor]]:
        """Returns a function of the optimizer state (see `checkpoint.moments_of`), for the first process."""
        return partial(moments_of, job.model, optimizer)

    def clear(self) -> None:
        """After the update."""
        self.rows.clear()

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error of a step (from 0) whose gradient is not finite.

        repeat: computes the norm of this process's own gradient again.
        """
        return TrainingError(f"The gradient is not finite at step {step + 1}: {ADVICE}")

    def is_done(self, job: Any) -> bool:
        """Whether training ends early."""
        return bool(job.should_stop())

    def after_evaluation(self, evaluate: Callable[[], bool]) -> None:
        """Evaluate in the first process. evaluate: returns whether training ends early."""
        evaluate()


class SharedSteps(LocalSteps):
    """The steps of one of several processes. gradients: None if another way adds them up."""

    def __init__(self, group: ProcessGroup, gradients: GradientSum | None, stop: StopRequest, times: StepTimes) -> None:
        super().__init__(RowGradients([]), times)
        self.group, self.gradients, self.stop = group, gradients, stop
        self._is_done = False
        self._parts: list[str] = []  # of the loss, in all processes so far

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of this process."""
        self.group.watch.step = step + 1
        self.times.start()
        found: list[tuple[int, Batch]] = job.numbered(step)
        self.times.lap("data")
        return found

    def add_up(self, counts: Mapping[str, int], tokens: int) -> Callable[[], Totals]:
        """Returns a function that waits for the totals of the step, which are added up meanwhile."""
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

    def before_last(self) -> None:
        """Before the last backward pass of a step: send gradients as they are completed."""
        if self.gradients is not None:
            self.gradients.expect_last()

    def finish(self) -> None:
        """Add up the gradients of all processes."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()  # so that computing is not counted as waiting
        self.group.watch.longest_step = max(self.group.watch.longest_step, self.times.lap("compute"))
        if self.gradients is not None:
            self.gradients.finish()
        self.times.lap("communication")

    def clear(self) -> None:
        """After the update."""
        self.times.lap("compute")
        self.times.end()

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
        """Evaluate in the first process, and learn its decision."""
        self._is_done = bool(self.group.from_main(evaluate))


class ShardedSteps(SharedSteps):
    """The steps of one of several processes, each of which stores a part of the network.

    Gathering weights and adding up gradients are part of the time of computing.
    """

    def __init__(self, group: ProcessGroup, network: ShardedNetwork, stop: StopRequest, times: StepTimes) -> None:
        super().__init__(group, None, stop, times)
        self.network = network
        self._losses: list[Tensor] = []  # of this process in this step

    def outcome(self, job: Any, batch: Batch) -> LossSums:
        """What the job computes for a batch with the sharded network."""
        return self.network.outcome(batch)

    def backward(self, loss: Tensor, number: int) -> None:
        """The backward pass. FSDP averages over the processes; a repeated micro-batch has no effect."""
        self._losses.append(loss.detach())
        with self.group.watch.blocked():
            (loss * (self.group.world if number >= 0 else 0)).backward()

    def clip(self, trained: Sequence[Tensor], most: float) -> float:
        """Limit the norm of the whole gradient, of which each process has a part."""
        with self.group.watch.blocked():
            norm: Any = nn.utils.clip_grad_norm_(trained, most)
            return float(norm.full_tensor())

    def clear(self) -> None:
        """After the update."""
        super().clear()
        self._losses.clear()

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error in the process whose own loss is not finite, without a repetition, which needs all processes."""
        own = float(torch.stack(self._losses).sum())
        return super().explain(step, lambda: own)

    def whole(self) -> AbstractContextManager[None]:
        """Inside the block, the job's network has its weights in the first process."""
        return self.network.whole()

    def end(self) -> None:
        """After the last step: give the job's network its weights in all processes."""
        self.network.gather()

    def moments(self, job: Any, optimizer: torch.optim.Optimizer) -> Callable[[], Mapping[str, Tensor]]:
        """Returns a function of the optimizer state, gathered in the first process."""
        found = self.network.moments(optimizer)
        return lambda: found


@contextmanager
def steps_of(
    job: Any, group: Group, stop: StopRequest, reduced: torch.dtype | None = None, network: ShardedNetwork | None = None
) -> Iterator[LocalSteps]:
    """The steps of `job` in this process. reduced: see Bucket; network: of sharded training.

    Raises InputError for a job that only one process can train.
    """
    model: nn.Module = job.model
    times = StepTimes(group, peak_flops(model))
    if not isinstance(group, ProcessGroup):
        with RowGradients.of(model) as rows:
            yield LocalSteps(rows, times)
        return
    job.deal = group.deal if network is None else group.deal_equally_many
    try:
        with nullcontext() if network is not None else GradientSum.of(model, group.watch, reduced) as gradients:
            steps = (
                SharedSteps(group, gradients, stop, times)
                if network is None
                else ShardedSteps(group, network, stop, times)
            )
            steps.after_evaluation(job.should_stop)  # a resumed run may have ended early
            yield steps
    finally:
        job.deal = everything


def reduced_type(name: ReducePrecision | None) -> torch.dtype | None:
    """The type in which gradients are added up; None for that of the weights."""
    return None if name is None else DTYPES[name]


def check_dealt(job: Any) -> None:
    """Raise InputError for a job whose batches depend on each other."""
    if not hasattr(job, "numbered") or getattr(job, "carries_state", False):
        raise InputError(
            "This training carries its state from batch to batch, which only one process can do: run it without "
            "torchrun, or add --set reset_state=true."
        )
