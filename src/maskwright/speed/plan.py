"""Estimates parameters, FLOPs, memory, time and cost of a training run.

On this machine the time comes from a measured probe; on a named GPU from the published peak times an assumed
utilization. The cost is hours times the hourly price that the user passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ..core.config import check
from ..core.errors import InputError
from ..core.gpus import GB, GPUS, TERA, Gpu, gpu_named
from ..doctor.machine import memory_bytes
from ..models.device import resolve_device, resolve_precision
from ..models.presets import PRESETS
from ..models.sizes import TrainingMemory, parameter_count
from .plan_config import STEPS, PlanConfig, link_of
from .workload import Flops, Workload, probe, workload_of

# -- Communication of data parallel training --------------------------------------------------------------------------
#
# Ring all-reduce of N GPUs moves 2 (N - 1) / N times the float32 gradients over the slowest link (Patarasuk and Yuan
# 2009). It runs while the last micro-batch is in its backward pass, except for the last bucket. Sharded weights (FSDP)
# are gathered for both passes and their gradients are reduced and scattered, in every micro-batch: half as much again.
#
# In every step the processes also add up their numbers of labels, which NCCL does along a tree: its time grows with the
# logarithm of N. It is hidden by the forward pass of the first micro-batch.


FORWARD, BACKWARD = 1 / 3, 2 / 3  # of the time of a step's passes
BUCKET_BYTES = 25 << 20  # of train.distributed.reduction
GRADIENT_BYTES = 4
AGREEMENT_SECONDS = 1e-4  # of a small message: measured over loopback with gloo


@dataclass(frozen=True)
class Communication:
    """Seconds of one step.

    link: bytes per second; compute: without communication; reduction: of all gradients (and weights, if they are
    sharded), of which `exposed` is not hidden by computation; agreement: of the small messages, as far as it is not
    hidden; deciding_tokens: tokens per optimizer step, without accumulation, from which all but the last bucket is
    hidden.
    """

    link: float
    compute: float
    reduction: float
    exposed: float
    agreement: float
    deciding_tokens: float

    @property
    def step(self) -> float:
        """The whole step."""
        return self.compute + self.exposed + self.agreement

    @property
    def efficiency(self) -> float:
        """Fraction of the speed without communication."""
        return self.compute / self.step


def communication(
    gpus: int, parameters: int, link: float, compute: float, accumulation: int, tokens: float, *, shard: bool = False
) -> Communication:
    """The communication of one step. compute: its seconds on each GPU; tokens: of the step over all GPUs."""
    factor = 2 * (gpus - 1) / gpus
    reduction = factor * GRADIENT_BYTES * parameters / link
    last = factor * min(BUCKET_BYTES, GRADIENT_BYTES * parameters) / link
    window = BACKWARD / accumulation  # the part of the computing that can hide it
    if shard:
        reduction, window = 1.5 * reduction * accumulation, 1.0
    exposed = max(0.0, reduction - last - window * compute) + last
    deciding = (reduction - last) / (window * accumulation * compute / tokens)
    agreement = max(0.0, AGREEMENT_SECONDS * math.ceil(math.log2(gpus)) - FORWARD / accumulation * compute)
    return Communication(link, compute, reduction, exposed, agreement, deciding)


def sharded(memory: TrainingMemory, gpus: int, layers: int) -> TrainingMemory:
    """The memory of each GPU if weights, gradients and optimizer are sharded, and gathered layer by layer."""
    gathered = 2 * (memory.cast_weights or memory.weights) // max(layers, 1)  # the layer in use, and the next
    parts = {name: getattr(memory, name) // gpus for name in ("weights", "gradients", "optimizer")}
    return replace(memory, **parts, cast_weights=gathered)


# -- Checks whether a training run fits into device memory, and suggests settings that do ----------------------------


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
    """Yield flags that make the run fit, with the resulting memory in bytes: the first of each kind of change."""
    one = config.accumulation or config.sequences
    counts = [config.accumulation] if config.accumulation else _counts(config.sequences)
    less = replace(config, activation_checkpointing=True)
    recomputed = (less, " --activation-checkpointing")
    owners = [recomputed] if config.activation_checkpointing else [(config, ""), recomputed]
    lengths = [config.max_length >> power for power in range(1, 32) if config.max_length >> power >= SHORTEST]
    trials: list[Iterable[tuple[str, PlanConfig, Workload, Hardware, int]]] = [
        [("--activation-checkpointing", less, work, hardware, one)] if less != config else (),
        (
            (f"--shard --accumulation {count}{more}", replace(own, shard=True), work, hardware, count)
            for own, more in owners
            for count in (counts if config.gpus > 1 and not config.shard else ())
        ),
        [
            *((f"--accumulation {count}", config, work, hardware, count) for count in _counts(config.sequences)),
            *(
                (f"--max-length {length}, one sequence at a time", config,
                 replace(work, length=length * work.length // config.max_length), hardware, config.sequences)
                for length in lengths
            ),
        ],
        (
            (f"--preset {name}", config, other, hardware, count)
            for name, other in _smaller_presets(config, work)
            for count in counts
        ),
        (
            (f"--gpu {name}", config, work, hardware_of(gpu, precision), one)
            for name, gpu in sorted(GPUS.items(), key=lambda item: (item[1].memory, item[0]))
            for precision in [hardware.precision if gpu.peak(hardware.precision) else "fp32"]
        ),
    ]  # fmt: skip
    for kind in trials:
        for flags, own, network, place, count in kind:
            memory = memory_of(own, network, place, count)
            if fits(memory, place):
                yield flags, memory.total
                break


def _smaller_presets(config: PlanConfig, work: Workload) -> list[tuple[str, Workload]]:
    """Return the smaller presets of the family, the largest first."""
    family = PRESETS[config.preset].family
    names = [name for name in PRESETS if PRESETS[name].family == family and name != config.preset]
    others = [(name, workload_of(replace(config, preset=name, model={}))) for name in names]
    smaller = [one for one in others if one[1].num_parameters < work.num_parameters]
    return sorted(smaller, key=lambda one: -one[1].num_parameters)


def hardware_of(gpu: Gpu, precision: str) -> Hardware:
    """Return the hardware of a named GPU."""
    return Hardware(gpu.title, gpu.memory, precision, is_cpu=False)


@dataclass(frozen=True)
class Plan:
    """Estimates for a run.

    encoder_parameters: encoder with pooler; parameters: all trained networks and heads; sequences: per micro-batch and
    device; flops: per token; total_flops: of the run; memory: per device; tokens_per_second: over all devices; cost:
    None without a price; communication: of a step; sharded_memory: per device if weights, gradients and optimizer were
    sharded (both None for one GPU, and the latter if they are); assumptions: sentences.
    """

    config: PlanConfig
    place: Hardware
    encoder_parameters: int
    parameters: int
    vocab_size: int
    tokens: float
    steps: int
    sequences: int
    accumulation: int
    flops: Flops
    total_flops: float
    memory: TrainingMemory
    tokens_per_second: float
    seconds: float
    timed_by: str
    share_of_peak: float
    cost: float | None
    communication: Communication | None = None
    sharded_memory: float | None = None
    assumptions: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return {
            **asdict(self),
            "flops": {**asdict(self.flops), "total": self.flops.total},
            "memory": {**asdict(self.memory), "total": self.memory.total, "available": self.place.memory},
            "communication": self.communication
            and {
                **asdict(self.communication),
                "step": self.communication.step,
                "efficiency": self.communication.efficiency,
            },
            "place": {"title": self.place.title, "devices": self.config.gpus, "precision": self.place.precision},
        }


def make_plan(config: PlanConfig) -> Plan:
    """Estimate a run. Raises InputError with settings that fit if the run does not fit into memory."""
    work = workload_of(config)
    gpu = None if config.gpu is None else gpu_named(config.gpu)
    place = _here(config) if gpu is None else hardware_of(gpu, _precision_on(gpu, config.precision))
    accumulation, memory = micro_batches(config, work, place)
    sequences = -(-config.sequences // accumulation)
    timing = _measured(config, work, place, sequences) if gpu is None else _assumed(config, work, gpu, place)
    rate, timed_by, share_of_peak, assumption = timing
    link, size = None, config.sequences * config.gpus * config.text_tokens  # tokens of a step
    if config.gpus > 1:
        speed = link_of(config.interconnect, config.gpus)
        link = communication(
            config.gpus, work.num_parameters, speed, size / rate, accumulation, size, shard=config.shard
        )
        rate = size / link.step
    tokens = config.tokens or float((config.steps or STEPS) * size)
    seconds = tokens / rate
    price = config.price_per_hour
    return Plan(
        config=config,
        place=place,
        encoder_parameters=parameter_count(work.config),
        parameters=work.num_parameters,
        vocab_size=work.config.vocab_size,
        tokens=tokens,
        steps=math.ceil(tokens / size),
        sequences=sequences,
        accumulation=accumulation,
        flops=work.flops(),
        total_flops=tokens * work.flops().total,
        memory=memory,
        tokens_per_second=rate,
        seconds=seconds,
        timed_by=timed_by,
        share_of_peak=share_of_peak,
        cost=None if price is None else seconds / 3600 * config.gpus * price,
        communication=link,
        sharded_memory=None if link is None or config.shard else sharded(memory, config.gpus, work.num_layers).total,
        assumptions=[assumption, *_other_assumptions(config)],
    )


def _here(config: PlanConfig) -> Hardware:
    device = resolve_device(config.device)
    precision = resolve_precision(config.precision, device, training=True)
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return Hardware(facts.name, facts.total_memory, precision, is_cpu=False)
    return Hardware("this machine", memory_bytes(), precision, is_cpu=device.type == "cpu")


def _precision_on(gpu: Gpu, wanted: str) -> str:
    """Return the precision on a named GPU, as `resolve_precision` would choose it there."""
    check(wanted != "fp16", "fp16 is for inference on a GPU only: use bf16 or fp32.")
    check(wanted != "bf16" or gpu.bf16 is not None, f"{gpu.title} does not support bfloat16: use --precision fp32.")
    return ("bf16" if gpu.bf16 is not None else "fp32") if wanted == "auto" else wanted


def _measured(config: PlanConfig, work: Workload, place: Hardware, sequences: int) -> tuple[float, str, float, str]:
    """Tokens per second, what they come from, the share of the peak, and the assumption in words."""
    found = probe(config, work, resolve_device(config.device), place.precision, sequences)
    depths = " and ".join(map(str, found.depths))
    how = f"a probe of {config.probe_seconds:g} s on {depths} layers, {found.sequences} x {work.length} tokens per step"
    assumption = "Time: the speed of the probe, with the same other load on the machine."
    share = found.tokens_per_second * work.flops().total / found.ceiling
    return found.tokens_per_second, how, share, assumption


def _assumed(config: PlanConfig, work: Workload, gpu: Gpu, place: Hardware) -> tuple[float, str, float, str]:
    peak = gpu.peak(place.precision)
    assert peak is not None
    recomputed = work.flops().recomputed if config.activation_checkpointing else 0.0
    rate = config.gpus * peak * config.utilization / (work.flops().total + recomputed)
    how = f"{config.utilization:.0%} of the published peak, {peak / TERA:,.0f} TFLOP/s in {place.precision}"
    assumption = (
        f"Time: {how} ({gpu.source}). This utilization is an assumption: change it with --utilization, or run the "
        "command without --gpu on such a machine to measure it. Small batches reach less."
    )
    return rate, how, config.utilization, assumption


def _other_assumptions(config: PlanConfig) -> list[str]:
    whose = "this machine's" if config.gpu is None else "a GPU's"
    found = [
        f"Memory: AdamW in float32, 16 bytes per parameter, plus the activations of a micro-batch; a tenth of "
        f"{whose} memory is reserved."
    ]
    if config.gpus > 1:
        how = (
            "weights sharded (--shard), so that each stores a part of the model"
            if config.shard
            else "one copy of the model per GPU, which needs less communication than sharded weights (--shard) and fits"
        )
        found.append(
            f"{config.gpus} GPUs: data parallel, as torchrun runs `pretrain`: {how}. Vendors' link speeds; real ones "
            "are lower."
        )
    if config.price_per_hour is None:
        found.append("Cost: unknown without --price-per-hour.")
    return found


def gigabytes(size: float) -> str:
    """Format bytes as gigabytes, such as 3.4 GB."""
    return f"{size / GB:,.1f} GB" if size >= GB else f"{size / GB:,.2f} GB"
