"""`maskwright bench` and `plan`: measured inference speed, and the estimated cost of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import option, settings_of
from ..core.util import DEVICE, THREADS, Device
from ..speed.plan_config import TRANSLATION, PlanConfig
from ..train.finetuning.config import FinetuneConfig
from ..train.pretraining.config import PretrainConfig
from .common import Part, Result, Table
from .settings import next_command, takes_settings
from .using import INPUT, MAX_LENGTH, read_rows

if TYPE_CHECKING:
    from ..speed.bench import BenchResult, Row
    from ..speed.plan import Plan

UNITS = ((365.25 * 86_400, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes"))


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Settings of `maskwright bench`."""

    COMMAND: ClassVar[str] = "bench"

    model: str = option(help="Model folder with a tokenizer, or a Hugging Face Hub model ID.", is_argument=True)
    input: Path | None = option(None, INPUT)
    precision: tuple[str, ...] = option((), "Precision to measure. Repeatable.", default_help="all available")
    max_length: int | None = option(None, MAX_LENGTH)
    seconds: float = option(60.0, "Approximate total time.", unit="seconds", minimum=1.0)
    no_peer: bool = option(False, "Do not measure transformers for comparison.")
    device: Device = option("auto", DEVICE)
    threads: int | None = option(None, THREADS)


@takes_settings(BenchSettings)
def bench(settings: BenchSettings) -> Iterator[Result]:
    """Measure the throughput and latency of a model on this machine, in every precision.

    Each candidate runs in a separate process; candidates alternate, and their embeddings are compared first. Without
    --input, the texts are sentences of the Python documentation.

    Examples:

        maskwright bench runs/a/model

        maskwright bench runs/a/model --input texts.txt --seconds 120 --threads 2 --json
    """
    from ..speed import bench as benchmark

    texts = None
    if settings.input is not None:
        texts = [row.text for row in read_rows(settings.input) if row.text.strip()]
    found = benchmark.bench(
        benchmark.BenchSettings(
            settings.model,
            texts,
            settings.precision or None,
            settings.seconds,
            not settings.no_peer,
            settings.max_length,
            settings.threads,
            settings.device,
        )
    )
    yield found.to_json(), _speeds(found)


def _speeds(result: BenchResult) -> Iterator[Part]:
    title = f"{result.model}: {result.num_texts:,} texts of {result.mean_tokens:.0f} tokens on average"
    bulk = ["in bulk", "tokens/s", "texts/s", "x", "of ceiling", "memory", "cosine"]
    yield Table(bulk, [_bulk(row) for row in result.rows], title=title, right=bulk[1:])
    sizes = list(result.rows[0].latency)
    alone = ["one text, ms", *(f"{size} tokens (p95)" for size in sizes)]
    yield Table(alone, [_alone(row, sizes) for row in result.rows], right=alone[1:])
    for name, why in result.missing.items():
        yield f"{name} is not measured: {why}."
    ceilings = ", ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in result.ceilings.items())
    threads = result.machine["processor"]["threads"]
    yield f"Plain matrix products reach {ceilings} here ({threads} threads): the ceiling."
    yield f"x: speed relative to the first row. cosine: lowest to its embeddings. Took {result.seconds:.0f} s."


def _bulk(row: Row) -> list[str]:
    return [
        f"{row.name} {row.precision}",
        f"{row.tokens_per_second:,.0f}",
        f"{row.texts_per_second:,.0f}",
        f"{row.ratio_to_first:.2f}",
        "-" if row.share_of_ceiling is None else f"{row.share_of_ceiling:.0%}",
        f"{row.memory / 1e6:,.0f} MB",
        f"{row.cosine:.4f}",
    ]


def _alone(row: Row, sizes: list[int]) -> list[str]:
    times = [[1000 * seconds for seconds in row.latency[size][:2]] for size in sizes]
    return [f"{row.name} {row.precision}", *(f"{median:,.1f} ({slow:,.1f})" for median, slow in times)]


@takes_settings(PlanConfig, has_recipe=True)
def plan(recipe: PlanConfig) -> Iterator[Result]:
    """Estimate the parameters, FLOPs, memory, time and price of a pre-training run.

    Without --gpu this machine is measured for about ten seconds; with it, the GPU's published peak and an assumed
    utilization give the time. A run that does not fit into memory is an error that names one that fits.

    Examples:

        maskwright plan --preset bert-mini --vocab-size 8000 --steps 2000

        maskwright plan --preset bert-base --tokens 3.3e9 --gpu h100 --gpus 8

        maskwright plan --preset bert-large --tokens 1e10 --max-length 512 --gpu a100 --price-per-hour 2 --json

        maskwright plan --preset transformer-big --objective translation --tokens 1e10 --gpu a100 --gpus 8
    """
    from ..speed.plan import make_plan

    found = make_plan(recipe)
    yield found.to_json(), _planned(found)


def _planned(plan: Plan) -> Iterator[Part]:
    from ..speed.plan import gigabytes

    config, memory, flops = plan.config, plan.memory, plan.flops
    where = plan.place.title if config.gpu is None else f"{config.gpus} x {plan.place.title}"
    available = "" if plan.place.memory is None else f" of {gigabytes(plan.place.memory)}"
    parts = {
        "weights, gradients, Adam": memory.weights + memory.gradients + memory.optimizer,
        "weights in bfloat16": memory.cast_weights,
        "activations": memory.activations,
        "scores of words": memory.logits,
    }
    step = f"{plan.accumulation:,} x {plan.sequences:,} x {config.text_tokens:,} tokens"
    rows = [
        ("network", f"{config.preset}, vocabulary {plan.vocab_size:,}: {plan.encoder_parameters:,} parameters"),
        ("trained", f"{plan.parameters:,} parameters with its heads ({config.objective}), {plan.place.precision}"),
        ("run", f"{plan.tokens:,.3g} tokens, {plan.steps:,} steps"),
        ("step", f"micro-batches x sequences x length: {step}{'' if config.gpu is None else ' on each GPU'}"),
        ("FLOPs of a token", f"{flops.total:.3g}: layers {flops.linear / flops.total:.0%}, attention "
                             f"{flops.attention / flops.total:.0%}, heads {flops.head / flops.total:.0%}"),
        ("FLOPs of the run", f"{plan.total_flops:.3g}"),
        ("memory", f"{gigabytes(memory.total)}{available} on {'this machine' if config.gpu is None else 'each GPU'}"),
        *[(f"  {name}", gigabytes(size)) for name, size in parts.items() if size],
        ("where", where),
        ("speed", f"{plan.tokens_per_second:,.0f} tokens/s, from {plan.timed_by}"),
        ("time", duration(plan.seconds)),
    ]  # fmt: skip
    if (link := plan.communication) is not None:
        rows[-2:-2] = [
            ("strategy", "sharded (FSDP)" if plan.sharded_memory is None else
                         f"data parallel; with --shard {gigabytes(plan.sharded_memory)} on each GPU"),
            ("step time", f"{link.compute * 1e3:,.1f} ms, and {(link.exposed + link.agreement) * 1e3:,.1f} ms of "
                          "communication"),
            ("gradients", f"{link.reduction * 1e3:,.1f} ms over {gigabytes(link.link)}/s, partly in the backward pass"),
            ("efficiency", f"{link.efficiency:.0%} of {config.gpus} single GPUs; the GPUs decide from "
                           f"{link.deciding_tokens:,.0f} tokens per step"),
        ]  # fmt: skip
    if config.gpu is None:
        rows.insert(-1, ("share of plain products", f"{plan.share_of_peak:.0%} of what matrix products reach here"))
    if plan.cost is not None:
        hours = plan.seconds / 3600 * config.gpus
        rows.append(("cost", f"{plan.cost:,.2f}: {hours:,.2f} hours at {config.price_per_hour:,g}"))
    yield Table(("what", "plan"), rows)
    yield from plan.assumptions
    shared = settings_of(PretrainConfig).keys() & settings_of(PlanConfig).keys()
    planned = {
        **{name: getattr(config, name) for name in shared},
        "vocab_size": plan.vocab_size,
        "steps": plan.steps,
        "batch_tokens": config.tokens_of_step,
        "accumulation": plan.accumulation * config.gpus,  # over all processes
    }
    if config.objective == TRANSLATION:
        planned["network"] = planned.pop("model")
        planned = {name: value for name, value in planned.items() if name in settings_of(FinetuneConfig)}
        yield next_command(
            FinetuneConfig, task=TRANSLATION, train="train.tsv", tokenizer="tok", output="runs/a", **planned
        )
    else:
        yield next_command(PretrainConfig, corpus=("corpus.txt",), output="runs/a", **planned)


def duration(seconds: float) -> str:
    """Seconds in the unit that people would use: 3.2 hours."""
    for size, name in UNITS:
        if seconds >= size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.0f} seconds"
