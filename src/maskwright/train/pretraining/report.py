"""The HTML report of a pre-training run."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...models.config import ModelConfig
from ...models.transformer import pattern_of, rule_of
from ...report import (
    Facts,
    Figure,
    Grid,
    Health,
    KeyFigures,
    MaskExamples,
    NextSteps,
    Report,
    RunMetadata,
    Section,
    plain,
    write_report,
)
from ...report.charts import Chart, Curves, Series
from ...report.numbers import percent
from ..run import RunFolder
from .config import PretrainConfig
from .health import BACKWARD, PAIRS, WORDS, Baseline, RunHealth, next_steps, words_part
from .job import PretrainJob

MAPS = 4


def write_pretrain_report(
    run: RunFolder, job: PretrainJob, baseline: Baseline, verdict: RunHealth, scores: dict[str, float]
) -> None:
    """Write report.html of a run: verdict, key figures, recipe, data, curves, mask predictions, next steps."""
    recipe, facts = run.recipe, run.facts()
    where = "held-out text" if job.held_out is not None else "the training text (nothing was held out)"
    part = words_part(scores)
    headline = (
        f"{percent(scores[f'{part}_accuracy'])} of the {WORDS[part]} predicted correctly on {where}; always predicting "
        f"the most common token gets {percent(baseline.mlm_accuracy)}."
    )
    if "rtd_accuracy" in scores:
        headline = (
            f"{percent(scores['rtd_accuracy'])} of the tokens classified correctly as original or replaced on {where}; "
            f"always predicting original gets {percent(scores['rtd_baseline'])}."
        )
    model = run.path / "model"
    blocks = [
        _key_figures(job, baseline, scores, run),
        RunMetadata.of(PretrainConfig, recipe, facts),
        Facts({key.replace("_", " "): plain(value) for key, value in job.shards.counts.items()}, title="The text"),
        _curves(run.records(), baseline),
        seen_blocks(job.objective.final_model(job.model).config, recipe["max_length"]),
        _predictions(job, where),
        NextSteps(next_steps(recipe["objective"], model)),
    ]
    report = Report(
        title=f"{recipe.get('start') or recipe['preset']}, {recipe['objective']}",
        headline=headline,
        health=Health(verdict.level, verdict.reasons),
        blocks=blocks,
        made=facts["started"],
    )
    write_report(run.path / "report.html", report)


def _predictions(job: PretrainJob, where: str) -> MaskExamples:
    objective = job.objective
    batch = job.held_out.batches[-1].to(job.device) if job.held_out is not None else job.micro_batches(0)[0]
    examples = objective.word_examples(job.model, batch, job.tokenizer)
    return MaskExamples(examples, title=objective.examples_title, note=objective.examples_note.format(where=where))


def _key_figures(job: PretrainJob, baseline: Baseline, scores: dict[str, float], run: RunFolder) -> KeyFigures:
    part = words_part(scores)
    figures = [
        Figure(
            f"{WORDS[part].capitalize()} correct",
            percent(scores[f"{part}_accuracy"]),
            note=f"baseline {percent(baseline.mlm_accuracy)}",
        ),
        Figure("Cross-entropy", round(scores[f"{part}_loss"], 3), "nats", f"unigram baseline {baseline.mlm_loss:.3f}"),
    ]
    if part == "clm":
        perplexity = math.exp(min(scores["clm_loss"], 700.0))
        figures.append(Figure("Perplexity", round(perplexity, 2), note="per token; depends on the tokenizer"))
    if "backward_accuracy" in scores:
        figures.append(Figure("Previous tokens correct", percent(scores["backward_accuracy"]), note="backward LM"))
    majority = f"majority class {percent(baseline.nsp_accuracy)}"
    for name, what in PAIRS.items():
        if name in scores:
            figures.append(Figure(f"{what.capitalize()} correct", percent(scores[name]), note=majority))
    if "rtd_accuracy" in scores:
        note = f"always original gets {percent(scores['rtd_baseline'])}"
        figures.insert(0, Figure("Tokens classified correctly", percent(scores["rtd_accuracy"]), note=note))
    if "probe_accuracy" in scores:
        figures.append(Figure("Linear probe", percent(scores["probe_accuracy"]), note="frozen features, labeled file"))
    rates = [record["tokens_per_second"] for record in run.records() if "tokens_per_second" in record]
    seen = sum(record.get("tokens", 0) for record in run.records())
    figures.append(Figure("Speed", round(float(np.median(rates))), "tokens/s", f"{seen:,} tokens seen"))
    figures.append(_size(job))
    return KeyFigures(figures)


def seen_blocks(network: ModelConfig, num_tokens: int) -> Section:
    """Attention patterns of the first sparse layers, for a text of `num_tokens`; empty for full attention."""
    if all(rule_of(network, depth, training=False) is None for depth in range(network.num_hidden_layers)):
        return Section("", [])
    found = [(depth, pattern_of(network, num_tokens, depth)) for depth in range(network.num_hidden_layers)]
    sparse = [(depth, pattern) for depth, pattern in found if pattern is not None]
    full = [str(depth + 1) for depth, pattern in found if pattern is None]
    note = f"A text of {num_tokens:,} tokens: rows are query blocks, columns key blocks; first head."
    if sparse:
        note += f" A block is {sparse[0][1].block_size:,} tokens."
    if full:
        note += f" In layer {', '.join(full)} every token attends to all tokens at this length."
    maps = {f"layer {depth + 1}": pattern.draw() for depth, pattern in sparse[:MAPS]}
    grids = [Grid.of_pattern(name, drawn) for name, drawn in (maps or {"every layer": "#"}).items()]
    return Section("Attention pattern", grids, note)


def _size(job: PretrainJob) -> Figure:
    kept, guesser = job.objective.final_model(job.model), job.objective.token_predictor(job.model)
    note = "" if guesser is kept else f"and a generator of {guesser.num_parameters:,}, shared tables included"
    return Figure("Parameters", kept.num_parameters, note=note)


def _curves(records: list[dict[str, Any]], baseline: Baseline) -> Curves:
    """Loss, accuracy of each part of the objective, learning rate and speed over the steps."""

    series = partial(Series.of, records)

    def both(key: str, name: str = "") -> list[Series]:
        prefix = f"{name}, " if name else ""
        return [series(f"{prefix}training", key), series(f"{prefix}held out", f"eval_{key}")]

    parts = {**WORDS, BACKWARD: "previous tokens"}
    losses = [line for part, words in parts.items() for line in both(f"{part}_loss", words)]
    charts = [Chart("Loss", losses, baselines={"unigram baseline": baseline.mlm_loss})]
    for part, words in parts.items():
        level = {"most common token": baseline.mlm_accuracy}
        charts.append(Chart(f"Accuracy: {words}", both(f"{part}_accuracy"), unit="percent", baselines=level))
    for key, words in PAIRS.items():
        level = {"majority class": baseline.nsp_accuracy}
        charts.append(Chart(f"Accuracy: {words}", both(key), unit="percent", baselines=level))
    found = [*both("rtd_accuracy"), series("held out, always original", "eval_rtd_baseline")]
    charts += [
        Chart("Accuracy: original or replaced", found, unit="percent"),
        Chart("Linear probe on labeled rows", [series("accuracy", "eval_probe_accuracy")], unit="percent"),
        Chart("Learning rate", [series("learning rate", "lr")]),
        Chart("Tokens per second", [series("training", "tokens_per_second")]),
    ]
    return Curves(charts)
