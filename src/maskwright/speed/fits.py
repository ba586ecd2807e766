"""Checks whether a training run fits into device memory, and suggests settings that do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core.errors import InputError
from ..core.gpus import GB, GPUS, Gpu
from ..models.memory import TrainingMemory
from ..models.presets import PRESETS
from .communication import sharded
from .plan_config import PlanConfig
from .workload import Workload, workload_of

USABLE_MEMORY = 0.9  # fraction of device memory; the rest is for torch, the driver and fragmentation
SHORTEST = 64
PROPOSALS = 4


@dataclass(frozen=True)
class Hardware:
    """The device type of a run. memory: bytes of one device, None if unknown."""

    title: str
    memory: int | None
    precision: str
    is_cpu: bool


def micro_batches(config: PlanConfig, work: Workload, hardware: Hardware) -> tuple[int, TrainingMemory]:
    """Return the gradient accumulation steps and the memory of one micro-batch: the configured or smallest number.

    Raises InputError if it does not fit, with settings that do.
    """
    last = memory_of(config, work, hardware, config.sequences)
    for count in [config.accumulation] if config.accumulation else _counts(config.sequences):
        last = memory_of(config, work, hardware, count)
        if fits(last, hardware):
            return count, last
    raise InputError(memory_error(config, work, hardware, last))


def memory_of(config: PlanConfig, work: Workload, hardware: Hardware, accumulation: int) -> TrainingMemory:
    """Return the memory of one micro-batch on one device with `accumulation` micro-batches per step."""
    sequences = -(-config.sequences // accumulation)
    memory = work.memory(sequences, hardware.precision, hardware.is_cpu, config.activation_checkpointing)
    return sharded(memory, config.gpus, work.num_layers) if config.shard else memory


def fits(memory: TrainingMemory, hardware: Hardware) -> bool:
    """Return whether it fits with a tenth reserved; unknown memory counts as fitting."""
    return hardware.memory is None or memory.total <= USABLE_MEMORY * hardware.memory


def memory_error(config: PlanConfig, work: Workload, hardware: Hardware, memory: TrainingMemory) -> str:
    """Return the error message for a run that does not fit, with settings that do."""
    assert hardware.memory is not None
    sequences = -(-config.sequences // (config.accumulation or config.sequences))
    proposals = list(_proposals(config, work, hardware))[:PROPOSALS]
    shown = "\n".join(f"  {flags}: {size / GB:,.1f} GB" for flags, size in proposals)
    ending = (
        f" What fits:\n{shown}"
        if proposals
        else " No smaller preset of this family fits: use a device with more memory."
    )
    return (
        f"{config.preset} does not fit: {sequences:,} x {work.length:,} tokens per micro-batch need "
        f"{memory.total / GB:,.1f} GB, and {hardware.title} has {hardware.memory / GB:,.1f} GB, "
        f"of which a tenth is reserved.{ending}"
    )


def _counts(sequences: int) -> list[int]:
    """Return 1, 2, 4, ... up to one sequence per micro-batch."""
    counts = [1 << power for power in range(sequences.bit_length()) if 1 << power < sequences]
    return [*counts, sequences]


def _proposals(config: PlanConfig, work: Workload, hardware: Hardware) -> Iterator[tuple[str, int]]:
    """Yield flags that make the run fit, with the resulting memory in bytes."""
    if not config.activation_checkpointing:
        less = replace(config, activation_checkpointing=True)
        memory = memory_of(less, work, hardware, config.accumulation or config.sequences)
        if fits(memory, hardware):
            yield "--activation-checkpointing", memory.total
    if config.gpus > 1 and not config.shard:
        yield from _sharded(config, work, hardware)
    for count in _counts(config.sequences):
        memory = memory_of(config, work, hardware, count)
        if fits(memory, hardware):
            yield f"--accumulation {count}", memory.total
            break
    else:
        yield from _shorter(config, work, hardware)
    yield from _smaller_preset(config, work, hardware)
    yield from _larger_gpu(config, work, hardware)


def _sharded(config: PlanConfig, work: Workload, hardware: Hardware) -> Iterator[tuple[str, int]]:
    """Yield --shard with what else is needed: less in a micro-batch, then activation checkpointing."""
    counts = [config.accumulation] if config.accumulation else _counts(config.sequences)
    for recomputes in dict.fromkeys([config.activation_checkpointing, True]):
        less = replace(config, shard=True, activation_checkpointing=recomputes)
        for count in counts:
            memory = memory_of(less, work, hardware, count)
            if fits(memory, hardware):
                more = " --activation-checkpointing" if recomputes else ""
                yield f"--shard --accumulation {count}{more}", memory.total
                return


def _shorter(config: PlanConfig, work: Workload, hardware: Hardware) -> Iterator[tuple[str, int]]:
    """Yield the longest sequence length at which one sequence fits."""
    length = config.max_length // 2
    while length >= SHORTEST:
        memory = memory_of(
            config, replace(work, length=length * work.length // config.max_length), hardware, config.sequences
        )
        if fits(memory, hardware):
            yield f"--max-length {length}, one sequence at a time", memory.total
            return
        length //= 2


def _smaller_preset(config: PlanConfig, work: Workload, hardware: Hardware) -> Iterator[tuple[str, int]]:
    """Yield the largest smaller preset of the family that fits."""
    family = PRESETS[config.preset].family
    names = [name for name in PRESETS if PRESETS[name].family == family and name != config.preset]
    others = {name: workload_of(replace(config, preset=name, model={})) for name in names}
    for name, other in sorted(others.items(), key=lambda item: -item[1].num_parameters):
        if other.num_parameters < work.num_parameters:
            for count in [config.accumulation] if config.accumulation else _counts(config.sequences):
                memory = memory_of(config, other, hardware, count)
                if fits(memory, hardware):
                    yield f"--preset {name}", memory.total
                    return


def _larger_gpu(config: PlanConfig, work: Workload, hardware: Hardware) -> Iterator[tuple[str, int]]:
    """Yield the GPU with the least memory that fits the run unchanged."""
    fitting: list[tuple[int, str, int]] = []
    for name, gpu in GPUS.items():
        other = hardware_of(gpu, hardware.precision if gpu.peak(hardware.precision) else "fp32")
        memory = memory_of(config, work, other, config.accumulation or config.sequences)
        if fits(memory, other):
            fitting.append((gpu.memory, name, memory.total))
    if fitting:
        _, name, size = min(fitting)
        yield f"--gpu {name}", size


def hardware_of(gpu: Gpu, precision: str) -> Hardware:
    """Return the hardware of a named GPU."""
    return Hardware(gpu.title, gpu.memory, precision, is_cpu=False)
