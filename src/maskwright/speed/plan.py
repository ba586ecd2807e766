"""A run before it runs: parameters, operations, memory, time and money.

Time here is what a probe measured; on a GPU that is not here it is the maker's peak times an assumed utilisation, and
the plan says so. There are no prices in this package: money is hours times what the user says that an hour costs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from ..core.config import check
from ..doctor.machine import memory_bytes
from ..models.describe import parameter_count
from ..models.device import resolve_device, resolve_precision
from ..models.memory import TrainingMemory
from .fits import Place, micro_batches, place_on
from .gpus import GB, TERA, Gpu, gpu_named
from .plan_config import STEPS, PlanConfig
from .probe import probe
from .workload import Flops, Workload, workload_of


@dataclass(frozen=True)
class Plan:
    """What a run would be. flops: of one token; memory: of one device; assumptions: what is believed, in sentences.

    encoder_parameters: of the network alone, with its pooler; parameters: of all that trains; sequences: of one
    micro-batch on one device; tokens_per_second: of all devices together; total_flops: of the run; cost: None without a
    price.
    """

    config: PlanConfig
    place: Place
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
    assumptions: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            **asdict(self),
            "flops": {**asdict(self.flops), "total": self.flops.total},
            "memory": {**asdict(self.memory), "total": self.memory.total, "available": self.place.memory},
            "place": {"title": self.place.title, "devices": self.config.gpus, "precision": self.place.precision},
        }


@dataclass(frozen=True)
class _Timing:
    tokens_per_second: float
    timed_by: str
    share_of_peak: float
    assumption: str


def make_plan(config: PlanConfig) -> Plan:
    """The plan of a run. Raises InputError, with what would fit, for one that cannot fit."""
    work = workload_of(config)
    gpu = None if config.gpu is None else gpu_named(config.gpu)
    place = _here(config) if gpu is None else place_on(gpu, _precision_on(gpu, config.precision))
    accumulation, memory = micro_batches(config, work, place)
    sequences = -(-config.sequences // accumulation)
    timing = _measured(config, work, place, sequences) if gpu is None else _assumed(config, work, gpu, place)
    tokens = config.tokens or float((config.steps or STEPS) * _tokens_of_step(config))
    seconds = tokens / timing.tokens_per_second
    price = config.price_per_hour
    return Plan(
        config=config,
        place=place,
        encoder_parameters=parameter_count(work.config),
        parameters=work.num_parameters,
        vocab_size=work.config.vocab_size,
        tokens=tokens,
        steps=math.ceil(tokens / _tokens_of_step(config)),
        sequences=sequences,
        accumulation=accumulation,
        flops=work.flops(),
        total_flops=tokens * work.flops().total,
        memory=memory,
        tokens_per_second=timing.tokens_per_second,
        seconds=seconds,
        timed_by=timing.timed_by,
        share_of_peak=timing.share_of_peak,
        cost=None if price is None else seconds / 3600 * config.gpus * price,
        assumptions=[timing.assumption, *_other_assumptions(config)],
    )


def _tokens_of_step(config: PlanConfig) -> int:
    return config.sequences * config.gpus * config.max_length


def _here(config: PlanConfig) -> Place:
    device = resolve_device(config.device)
    precision = resolve_precision(config.precision, device, training=True)
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return Place(facts.name, facts.total_memory, precision, is_cpu=False)
    return Place("this machine", memory_bytes(), precision, is_cpu=device.type == "cpu")


def _precision_on(gpu: Gpu, wanted: str) -> str:
    """The number format on a GPU that is not here, as `resolve_precision` would choose it there."""
    check(wanted != "fp16", "fp16 serves inference on a GPU only: use bf16 or fp32.")
    check(wanted != "bf16" or gpu.bf16 is not None, f"{gpu.title} does not multiply bfloat16: use --precision fp32.")
    return ("bf16" if gpu.bf16 is not None else "fp32") if wanted == "auto" else wanted


def _measured(config: PlanConfig, work: Workload, place: Place, sequences: int) -> _Timing:
    found = probe(config, work, resolve_device(config.device), place.precision, sequences)
    depths = " and ".join(map(str, found.depths))
    how = f"a probe of {config.probe_seconds:g} s on {depths} layers, {found.sequences} x {work.length} tokens a step"
    assumption = "Time: as fast as in the probe all along, when nothing else ran or ran as now."
    share = found.tokens_per_second * work.flops().total / found.ceiling
    return _Timing(found.tokens_per_second, how, share, assumption)


def _assumed(config: PlanConfig, work: Workload, gpu: Gpu, place: Place) -> _Timing:
    peak = gpu.peak(place.precision)
    assert peak is not None
    again = work.flops().recomputed if config.activation_checkpointing else 0.0
    rate = config.gpus * peak * config.utilisation / (work.flops().total + again)
    how = f"{config.utilisation:.0%} of the published peak, {peak / TERA:,.0f} TFLOP/s in {place.precision}"
    assumption = (
        f"Time: {how} ({gpu.source}). The share is an assumption, not a measurement: change it with --utilisation, or "
        "run this command without --gpu on such a machine, which measures. Small batches reach less."
    )
    return _Timing(rate, how, config.utilisation, assumption)


def _other_assumptions(config: PlanConfig) -> list[str]:
    found = [
        f"Memory: AdamW in float32, 16 bytes a parameter, and what a micro-batch keeps; a tenth of {_whose(config)} "
        "memory is set aside."
    ]
    if config.gpus > 1:
        found.append(
            f"{config.gpus} GPUs: each holds a whole copy of the network and takes its share of every step; the "
            "utilisation is that of all together. `pretrain` runs in one process today."
        )
    if config.price_per_hour is None:
        found.append("Money: no price was given (--price-per-hour).")
    return found


def _whose(config: PlanConfig) -> str:
    return "this machine's" if config.gpu is None else "a GPU's"


def gigabytes(size: float) -> str:
    """Bytes for people: 3.4 GB."""
    return f"{size / GB:,.1f} GB" if size >= GB else f"{size / GB:,.2f} GB"
