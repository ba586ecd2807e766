"""Whether a run fits into the memory of its devices, and what would if it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core.errors import InputError
from ..models.memory import TrainingMemory
from ..models.presets import PRESETS
from .gpus import GB, GPUS, Gpu
from .plan_config import PlanConfig
from .workload import Workload, workload_of

ROOM = 0.9  # of a device's memory: the rest is torch's, the driver's and what falls between blocks
SHORTEST = 64
PROPOSALS = 4


@dataclass(frozen=True)
class Place:
    """Where a run computes. memory: bytes of one device, None where it is not known."""

    title: str
    memory: int | None
    precision: str
    is_cpu: bool


def micro_batches(config: PlanConfig, work: Workload, place: Place) -> tuple[int, TrainingMemory]:
    """How many micro-batches make a step, and the memory of one: as few as fit, or as many as were asked for.

    Raises InputError when it does not fit, with what would.
    """
    last = memory_of(config, work, place, config.sequences)
    for count in [config.accumulation] if config.accumulation else _counts(config.sequences):
        last = memory_of(config, work, place, count)
        if fits(last, place):
            return count, last
    raise InputError(refusal(config, work, place, last))


def memory_of(config: PlanConfig, work: Workload, place: Place, accumulation: int) -> TrainingMemory:
    """Of one micro-batch on one device when a step is `accumulation` of them."""
    sequences = -(-config.sequences // accumulation)
    return work.memory(sequences, place.precision, place.is_cpu, config.activation_checkpointing)


def fits(memory: TrainingMemory, place: Place) -> bool:
    """Whether it fits, a tenth set aside; what is not known fits."""
    return place.memory is None or memory.total <= ROOM * place.memory


def refusal(config: PlanConfig, work: Workload, place: Place, memory: TrainingMemory) -> str:
    """The sentence for a run that cannot fit, with what can."""
    assert place.memory is not None
    sequences = -(-config.sequences // (config.accumulation or config.sequences))
    proposals = list(_proposals(config, work, place))[:PROPOSALS]
    shown = "\n".join(f"  {flags}: {size / GB:,.1f} GB" for flags, size in proposals)
    ending = f" What fits:\n{shown}" if proposals else " No smaller preset of this family fits: take more memory."
    return (
        f"{config.preset} does not fit: {sequences:,} x {work.length:,} tokens at a time take {memory.total / GB:,.1f} "
        f"GB, and {place.title} has {place.memory / GB:,.1f} GB, of which a tenth is set aside.{ending}"
    )


def _counts(sequences: int) -> list[int]:
    """1, 2, 4, ... and at last one sequence at a time."""
    counts = [1 << power for power in range(sequences.bit_length()) if 1 << power < sequences]
    return [*counts, sequences]


def _proposals(config: PlanConfig, work: Workload, place: Place) -> Iterator[tuple[str, int]]:
    """Flags that make it fit, and the bytes that it then takes."""
    if not config.activation_checkpointing:
        less = replace(config, activation_checkpointing=True)
        memory = memory_of(less, work, place, config.accumulation or config.sequences)
        if fits(memory, place):
            yield "--activation-checkpointing", memory.total
    for count in _counts(config.sequences):
        memory = memory_of(config, work, place, count)
        if fits(memory, place):
            yield f"--accumulation {count}", memory.total
            break
    else:
        yield from _shorter(config, work, place)
    yield from _smaller_preset(config, work, place)
    yield from _larger_gpu(config, work, place)


def _shorter(config: PlanConfig, work: Workload, place: Place) -> Iterator[tuple[str, int]]:
    """The longest sequences of which one fits."""
    length = work.length // 2
    while length >= SHORTEST:
        again = config.activation_checkpointing
        memory = replace(work, length=length).memory(1, place.precision, place.is_cpu, again)
        if fits(memory, place):
            yield f"--max-length {length}, one sequence at a time", memory.total
            return
        length //= 2


def _smaller_preset(config: PlanConfig, work: Workload, place: Place) -> Iterator[tuple[str, int]]:
    """The largest preset of the family that fits where this one does not."""
    family = PRESETS[config.preset].family
    names = [name for name in PRESETS if PRESETS[name].family == family and name != config.preset]
    others = {name: workload_of(replace(config, preset=name, model={})) for name in names}
    for name, other in sorted(others.items(), key=lambda item: -item[1].num_parameters):
        if other.num_parameters < work.num_parameters:
            for count in [config.accumulation] if config.accumulation else _counts(config.sequences):
                memory = memory_of(config, other, place, count)
                if fits(memory, place):
                    yield f"--preset {name}", memory.total
                    return


def _larger_gpu(config: PlanConfig, work: Workload, place: Place) -> Iterator[tuple[str, int]]:
    """The GPU with the least memory that holds it as it was asked for."""
    fitting: list[tuple[int, str, int]] = []
    for name, gpu in GPUS.items():
        other = place_on(gpu, place.precision if gpu.peak(place.precision) else "fp32")
        memory = memory_of(config, work, other, config.accumulation or config.sequences)
        if fits(memory, other):
            fitting.append((gpu.memory, name, memory.total))
    if fitting:
        _, name, size = min(fitting)
        yield f"--gpu {name}", size


def place_on(gpu: Gpu, precision: str) -> Place:
    """A named GPU as a place."""
    return Place(gpu.title, gpu.memory, precision, is_cpu=False)
