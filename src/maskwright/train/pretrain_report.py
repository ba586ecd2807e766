"""The page of a pre-training run."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.attending import pattern_of, rule_of
from ..models.config import ModelConfig
from .health import PAIRS, WORDS, Baseline, Verdict, words_part
from .mask_examples import hidden_examples, mask_examples, next_examples
from .pretrain_job import PretrainJob
from .report import (
    Chart,
    Command,
    Curves,
    Facts,
    Figure,
    Health,
    KeyFigures,
    MaskExamples,
    NextSteps,
    Report,
    SeenBlocks,
    Series,
    WhatRan,
    write_report,
)
from .report.numbers import percent
from .run import RunFolder

if TYPE_CHECKING:
    from pathlib import Path


MAPS = 4


def write_pretrain_report(
    run: RunFolder, job: PretrainJob, baseline: Baseline, verdict: Verdict, scores: dict[str, float]
) -> None:
    """Write report.html of a run: verdict, figures, recipe, data, curves, filled masks, what to do next."""
    recipe, facts = run.recipe, run.facts()
    where = "held-out text" if job.held_out is not None else "the training text (nothing was held out)"
    part = words_part(scores)
    headline = (
        f"{percent(scores[f'{part}_accuracy'])} of the {WORDS[part]} guessed right on {where}; always guessing the "
        f"commonest token gets {percent(baseline.mlm_accuracy)}."
    )
    if "rtd_accuracy" in scores:
        headline = (
            f"{percent(scores['rtd_accuracy'])} of the tokens judged right, original or replaced, on {where}; calling "
            f"all of them original gets {percent(scores['rtd_baseline'])}."
        )
    model = run.path / "model"
    blocks = [
        _key_figures(job, baseline, scores, run),
        WhatRan(shlex.join(_command(recipe)), {key: _shown(value) for key, value in recipe.items()}, facts),
        Facts(
            {key.replace("_", " "): _shown(value) for key, value in job.shards.counts.items()},
            title="The text",
        ),
        _curves(run.records(), baseline),
        seen_blocks(job.objective.kept(job.model).config, recipe["max_length"]),
        _guesses(job, where),
        NextSteps(_next_steps(model, job)),
    ]
    report = Report(
        title=f"{recipe['preset']}, {recipe['objective']}",
        headline=headline,
        health=Health(verdict.level, verdict.reasons),  # type: ignore[arg-type]
        blocks=blocks,
        made=facts["started"],
    )
    write_report(run.path / "report.html", report)


def _next_steps(model: Path, job: PretrainJob) -> list[Command]:
    if job.objective.writes:
        own = f"maskwright finetune translation --model {model} --train train.source train.target -o runs/task"
        return [Command(own, "teach it to write texts for texts")]
    teach = f"maskwright finetune classification --model {model} --train train.tsv --dev dev.tsv -o runs/task"
    steps = [Command(teach, "teach it a task")]
    if job.objective.head == "clm":
        steps.insert(0, Command(f'maskwright generate {model} "your text" --top-k 40', "let it write"))
    if job.objective.words == "mlm":
        fill = f'maskwright fill-mask {_guesser_folder(model, job)} "your text with one [MASK] ."'
        steps.insert(0, Command(fill, "see what it learnt"))
    return steps


def _guesses(job: PretrainJob, where: str) -> MaskExamples:
    if job.objective.words == "clm":
        return MaskExamples(next_examples(job), "Guessed next words", f"What follows the beginnings of {where}.")
    if job.objective.writes:
        return MaskExamples(hidden_examples(job), note=f"One word hidden at a time in {where}, and written again.")
    return MaskExamples(mask_examples(job), note=f"One word hidden at a time in {where}.")


def _key_figures(job: PretrainJob, baseline: Baseline, scores: dict[str, float], run: RunFolder) -> KeyFigures:
    part = words_part(scores)
    figures = [
        Figure(
            f"{WORDS[part].capitalize()} right",
            percent(scores[f"{part}_accuracy"]),
            note=f"baseline {percent(baseline.mlm_accuracy)}",
        ),
        Figure(
            "Cross-entropy",
            round(scores[f"{part}_loss"], 3),
            "nats",
            f"counting words gives {baseline.mlm_loss:.3f}",
        ),
    ]
    if part == "clm":
        perplexity = math.exp(min(scores["clm_loss"], 700.0))
        figures.append(Figure("Perplexity", round(perplexity, 2), note="by token; its tokenizer decides the scale"))
    if "backward_accuracy" in scores:
        figures.append(Figure("Previous tokens right", percent(scores["backward_accuracy"]), note="from the other end"))
    for name, what in PAIRS.items():
        if name in scores:
            figures.append(Figure(f"{what.capitalize()} right", percent(scores[name]), note="a coin gets 50 %"))
    if "rtd_accuracy" in scores:
        note = f"all original gets {percent(scores['rtd_baseline'])}"
        figures.insert(0, Figure("Tokens judged right", percent(scores["rtd_accuracy"]), note=note))
    if "probe_accuracy" in scores:
        figures.append(Figure("Linear probe", percent(scores["probe_accuracy"]), note="frozen features, labelled file"))
    rates = [record["tokens_per_second"] for record in run.records() if "tokens_per_second" in record]
    seen = sum(record.get("tokens", 0) for record in run.records())
    figures.append(Figure("Speed", round(float(np.median(rates))), "tokens/s", f"{seen:,} tokens seen"))
    figures.append(_size(job))
    return KeyFigures(figures)


def seen_blocks(network: ModelConfig, num_tokens: int) -> SeenBlocks:
    """Who sees whom in the first layers of sparse attention, for a text of `num_tokens`; empty for full attention."""
    if all(rule_of(network, depth, training=False) is None for depth in range(network.num_hidden_layers)):
        return SeenBlocks({})
    found = [(depth, pattern_of(network, num_tokens, depth)) for depth in range(network.num_hidden_layers)]
    sparse = [(depth, pattern) for depth, pattern in found if pattern is not None]
    full = [str(depth + 1) for depth, pattern in found if pattern is None]
    note = f"A text of {num_tokens:,} tokens: blocks of queries down, of keys across; the first head."
    if sparse:
        note += f" A block is {sparse[0][1].block_size:,} tokens."
    if full:
        note += f" In layer {', '.join(full)} all tokens see all at this length."
    maps = {f"layer {depth + 1}": pattern.draw() for depth, pattern in sparse[:MAPS]}
    return SeenBlocks(maps or {"every layer": "#"}, note=note)


def _size(job: PretrainJob) -> Figure:
    kept, guesser = job.objective.kept(job.model), job.objective.guesser(job.model)
    note = "" if guesser is kept else f"and a generator of {guesser.num_parameters:,}, shared tables included"
    return Figure("Parameters", kept.num_parameters, note=note)


def _guesser_folder(model: Path, job: PretrainJob) -> Path:
    """The folder of what guesses masks: the model's own, or the generator in it."""
    return model if job.objective.guesser(job.model) is job.objective.kept(job.model) else model / "generator"


def _curves(records: list[dict[str, Any]], baseline: Baseline) -> Curves:
    """Loss, accuracy, learning rate and speed over the steps."""

    def series(name: str, key: str) -> Series:
        found = [(record["step"], record[key]) for record in records if key in record]
        return Series(name, [x for x, _ in found], [y for _, y in found])

    charts = [
        Chart(
            "Loss",
            [
                series("masked tokens, training", "mlm_loss"),
                series("masked tokens, held out", "eval_mlm_loss"),
                series("next tokens, training", "clm_loss"),
                series("next tokens, held out", "eval_clm_loss"),
                series("previous tokens, training", "backward_loss"),
                series("previous tokens, held out", "eval_backward_loss"),
                series("hidden tokens, training", "denoise_loss"),
                series("hidden tokens, held out", "eval_denoise_loss"),
            ],
            baselines={"counting words": baseline.mlm_loss},
        ),
        Chart(
            "Masked tokens guessed right",
            [series("training", "mlm_accuracy"), series("held out", "eval_mlm_accuracy")],
            unit="percent",
            baselines={"commonest token": baseline.mlm_accuracy},
        ),
        Chart(
            "Next tokens guessed right",
            [series("training", "clm_accuracy"), series("held out", "eval_clm_accuracy")],
            unit="percent",
            baselines={"commonest token": baseline.mlm_accuracy},
        ),
        Chart(
            "Previous tokens guessed right",
            [series("training", "backward_accuracy"), series("held out", "eval_backward_accuracy")],
            unit="percent",
            baselines={"commonest token": baseline.mlm_accuracy},
        ),
        Chart(
            "Hidden tokens written right",
            [series("training", "denoise_accuracy"), series("held out", "eval_denoise_accuracy")],
            unit="percent",
            baselines={"commonest token": baseline.mlm_accuracy},
        ),
        Chart(
            "Sentence pairs judged right",
            [series("training", "nsp_accuracy"), series("held out", "eval_nsp_accuracy")],
            unit="percent",
            baselines={"a coin": 0.5},
        ),
        Chart(
            "Sentence orders judged right",
            [series("training", "sop_accuracy"), series("held out", "eval_sop_accuracy")],
            unit="percent",
            baselines={"a coin": 0.5},
        ),
        Chart(
            "Tokens judged right, original or replaced",
            [
                series("training", "rtd_accuracy"),
                series("held out", "eval_rtd_accuracy"),
                series("held out, all called original", "eval_rtd_baseline"),
            ],
            unit="percent",
        ),
        Chart("Linear probe on labelled rows", [series("accuracy", "eval_probe_accuracy")], unit="percent"),
        Chart("Learning rate", [series("rate", "lr")]),
        Chart("Tokens per second", [series("training", "tokens_per_second")]),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def _command(recipe: dict[str, Any]) -> list[str]:
    flags = ["preset", "objective", "steps", "batch_tokens", "max_length", "lr", "seed", "tokenizer"]
    words = ["maskwright", "pretrain"]
    for name in flags:
        if name in recipe:
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    for name, value in recipe.get("model", {}).items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return [*words, "-o", recipe["output"], *recipe["corpus"]]


def _shown(value: Any) -> Any:
    """A setting as a cell."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value
