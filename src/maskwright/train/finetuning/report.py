"""The HTML report of a fine-tuning run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.config import command_line
from ...report import (
    Bar,
    Bars,
    Block,
    Chart,
    Comparison,
    Curves,
    Facts,
    Figure,
    Health,
    Histogram,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Series,
    System,
    Weights,
    write_report,
)
from ...report.numbers import fraction, percent, plus_minus
from ...tasks.base import Evaluation
from ...tasks.evaluation.report import trust_blocks
from ...tasks.report import report_of
from ...tasks.specs import readers_of
from ..against_baseline import Compared
from ..run import RunFolder
from .config import FinetuneConfig
from .run_data import RunData
from .seeds import SeedResult


def write_finetune_report(
    run: RunFolder, data: RunData, seeds: Sequence[SeedResult], evaluation: Evaluation, result: dict[str, Any]
) -> None:
    """Write report.html of a run. evaluation: of the saved model on the dev examples."""
    metric = result["main_metric"]
    deviation = result["deviation"][metric] if len(seeds) > 1 else None
    dev = "rows held out from the training file" if result["dev_from_train"] else "dev examples"
    over = f" over {len(seeds)} seeds" if len(seeds) > 1 else ""
    against = Compared.from_json(result["baseline"])
    simple, words = against.baseline, against.predictor
    headline = (
        f"Dev {metric.replace('_', ' ')} {plus_minus(result['mean'][metric], deviation)}{over}, on "
        f"{data.dev.num_rows:,} {dev}; {words}: {simple:.3f}."
    )
    if result["average"] is not None:
        headline += f" The saved model averages their weights: {result['average'][metric]:.3f}."
    blocks: list[Block] = [
        KeyFigures(
            [
                Figure(
                    name.replace("_", " "),
                    plus_minus(value, result["deviation"][name] if deviation is not None else None),
                )
                for name, value in result["mean"].items()
            ]
        ),
        RunMetadata(
            command_line(FinetuneConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        *_final(result),
        *data_blocks(data),
        _curves(seeds, data.task.name, metric),
        Weights(data.loaded.loaded, data.loaded.new, data.loaded.unused),
        *_trust(data, evaluation),
        *report_of(data).mistakes(evaluation),
        *_mixture(result.get("mix")),
        _comparison(seeds, metric, simple, words, result),
        NextSteps(report_of(data).next_steps(run.path / "model", readers_of(data.task.name)[0].example_file)),
    ]
    health = Health(against.level, [f"{against}."])
    if result["dev_from_train"]:
        reason = "The dev examples are held out from the training file; a separate --dev file is more reliable."
        health = Health("bad" if against.level == "bad" else "watch", [f"{against}.", reason])
    report = Report(f"{data.task.name} on {data.config.train.name}", headline, health, blocks, run.facts()["started"])
    write_report(run.path / "report.html", report)


def _mixture(mix: dict[str, Any] | None) -> list[Block]:
    """Layer weights of a scalar mix, if the head has one."""
    if mix is None:
        return []
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    return [mixture_bars(labels, mix["shares"], [percent(share) for share in mix["shares"]], mix["scale"])]


def mixture_bars(
    labels: Sequence[str], shares: Sequence[float], texts: Sequence[str], scale: float, of: str = ""
) -> Bars:
    """The weights of a scalar mix of layers. shares: softmax weights; texts: labels at the bars; of: what the weights
    are averaged over.
    """
    bars = [Bar(label, share, text) for label, share, text in zip(labels, shares, texts, strict=True)]
    note = (
        f"softmax(w) of Peters et al. 2018, equation 1, {of}the scale gamma is {fraction(scale)}. Untrained weight of "
        f"each layer: {percent(1 / len(labels))}."
    )
    return Bars(bars, title="Scalar mix weights by layer", note=note)


def _final(result: dict[str, Any]) -> list[Block]:
    """Scores of the final model that epochs do not have, with their signatures."""
    signatures = result["signatures"]
    if not signatures:
        return []
    facts = {name: f"{value:.4g}" for name, value in result["final"].items()}
    facts |= {f"signature of {name}": text for name, text in signatures.items()}
    return [Facts(facts, title="The final model on the dev examples (beam search)")]


def data_blocks(data: RunData) -> list[Block]:
    """Dataset statistics: number of rows, labels, lengths, and truncated or skipped rows."""
    of_task = report_of(data)
    facts = {
        "training rows": data.train.num_rows,
        "dev examples": data.dev.num_rows,
        "skipped bad rows": data.num_skipped,
        "tokens in training rows": int(data.train.lengths.sum()),
        **of_task.facts(),
    }
    lengths = of_task.lengths()
    counts, edges = np.histogram(lengths, bins=min(30, max(int(lengths.max()), 2)))
    return [
        Facts(facts, title="The data"),
        *of_task.labels(),
        Histogram(
            edges.tolist(),
            counts.tolist(),
            title=f"Length of the training {of_task.sequences}",
            x_label="tokens",
            y_label=of_task.sequences,
            marks={"max_length": data.max_length},
        ),
    ]


def _curves(seeds: Sequence[SeedResult], part: str, metric: str) -> Curves:
    records = [RunFolder(seed.folder, {}).records() for seed in seeds]

    charts = [
        Chart("Loss", [*show_series(records, "training", f"{part}_loss"), *show_series(records, "dev", "eval_loss")]),
        Chart(f"Dev {metric.replace('_', ' ')}", show_series(records, "dev", f"eval_{metric}")),
        Chart("Learning rate", show_series(records, "learning rate", "lr")[:1]),
        Chart("Tokens per second", show_series(records, "training", "tokens_per_second")),
    ]
    return Curves(charts)


def show_series(records: Sequence[Sequence[dict[str, Any]]], name: str, key: str) -> list[Series]:
    """One line per seed of the values that its records have under `key`."""
    lines = [[(record["step"], record[key]) for record in run if key in record] for run in records]
    return [Series(name, [x for x, _ in line], [y for _, y in line]) for line in lines]


def _trust(data: RunData, evaluation: Evaluation) -> list[Block]:
    decisions = data.task.decisions(evaluation.logits, data.dev)
    return [] if decisions is None else trust_blocks(decisions, data.task.temperature, abstains=data.task.can_abstain)


def _comparison(
    seeds: Sequence[SeedResult], metric: str, simple: float, words: str, result: dict[str, Any]
) -> Comparison:
    scores = [seed.metrics[metric] for seed in seeds]
    own = Score(result["mean"][metric], result["deviation"][metric] if len(seeds) > 1 else None, scores)
    average = result["average"]
    return Comparison(
        [
            System("this run", {metric: own}, seeds=len(seeds)),
            *([] if average is None else [System("averaged weights", {metric: average[metric]})]),
            System(words, {metric: simple}, source="baseline"),
        ],
        note="The best epoch of each seed was chosen on the dev examples, so these scores are optimistic; score unseen "
        "test rows with maskwright evaluate.",
    )
