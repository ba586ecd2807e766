"""`maskwright plan`, also `maskwright bench plan`: estimated memory, time and price of a pre-training run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.config import settings_of
from ...speed.plan_config import TRANSLATION, PlanConfig
from ...train.finetuning.config import FinetuneConfig
from ...train.pretraining.config import PretrainConfig
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import print_next, takes_settings

if TYPE_CHECKING:
    from ...speed.plan import Plan

UNITS = ((365.25 * 86_400, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes"))


@takes_settings(PlanConfig, has_recipe=True)
def plan(recipe: PlanConfig, json: JsonFlag = False) -> None:
    """Estimate the parameters, FLOPs, memory, time and price of a pre-training run.

    Without --gpu this machine is measured for about ten seconds; with it, the GPU's published peak and an assumed
    utilization give the time. A run that does not fit into memory is an error that names one that fits.

    Examples:

        maskwright plan --preset bert-mini --vocab-size 8000 --steps 2000

        maskwright plan --preset bert-base --tokens 3.3e9 --gpu h100 --gpus 8

        maskwright plan --preset bert-base --tokens 3.3e9 --gpu h100 --gpus 64 --interconnect 100gb

        maskwright plan --preset bert-large --tokens 1e10 --max-length 512 --gpu a100 --price-per-hour 2 --json

        maskwright plan --preset gpt2-xl --tokens 3.3e10 --max-length 1024 --gpu h100 --gpus 8 --batch-tokens 1048576

        maskwright plan --preset transformer-big --objective translation --tokens 1e10 --gpu a100 --gpus 8
    """
    from ...speed.plan import make_plan

    found = make_plan(recipe)
    if json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(plan: Plan) -> None:
    from ...speed.plan import gigabytes

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
    print_table(("what", "plan"), rows)
    for sentence in plan.assumptions:
        print_text(sentence)
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
        print_next(FinetuneConfig, task=TRANSLATION, train="train.tsv", tokenizer="tok", output="runs/a", **planned)
    else:
        print_next(PretrainConfig, corpus=("corpus.txt",), output="runs/a", **planned)


def duration(seconds: float) -> str:
    """Seconds in the unit that people would use: 3.2 hours."""
    for size, name in UNITS:
        if seconds >= size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.0f} seconds"
