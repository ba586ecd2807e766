"""The HTML report of a fine-tuning run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...core.options import command_line
from ...report import (
    Bar,
    Bars,
    Block,
    Chart,
    Comparison,
    Confusion,
    Curves,
    Facts,
    Figure,
    Health,
    Histogram,
    KeyFigures,
    Report,
    RunMetadata,
    Score,
    Series,
    System,
    Weights,
    WorstError,
    WorstErrors,
    write_report,
)
from ...report.layer_mix import mixture_bars
from ...report.numbers import percent, plus_minus
from ...tasks.anomaly.task import Anomaly
from ...tasks.base import Evaluation, Task
from ...tasks.choice.examples import ChoiceExamples
from ...tasks.choice.report import choice_blocks, choice_facts
from ...tasks.choice.task import Choice
from ...tasks.classification.task import Classification
from ...tasks.evaluation.rare_report import anomaly_blocks, imbalance_table
from ...tasks.evaluation.trust_report import trust_blocks
from ...tasks.generation.task import Generation
from ...tasks.qa.report import qa_facts, qa_mistakes
from ...tasks.qa.task import QuestionAnswering
from ...tasks.rows.examples import Examples
from ...tasks.rows.long_examples import LongExamples
from ...tasks.similarity.rows import PairExamples
from ...tasks.similarity.task import Similarity
from ...tasks.tagging.report import tag_bars, tagging_blocks, tagging_facts
from ...tasks.tagging.task import Tagging
from ...tasks.translation.task import Translation
from ..against_baseline import Compared
from ..run import RunFolder
from .config import FinetuneConfig
from .generation_report import written_blocks
from .next_steps import next_steps
from .run_data import RunData
from .seeds import SeedResult

WORST = 12
_MISTAKES: dict[type[Task], Callable[[Any, Examples, torch.Tensor], list[Block]]] = {
    Tagging: tagging_blocks,
    QuestionAnswering: qa_mistakes,
    Choice: choice_blocks,
    Anomaly: anomaly_blocks,
}


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
        *mistake_blocks(data, evaluation),
        *_mixture(result.get("mix")),
        _comparison(seeds, metric, simple, words, result),
        next_steps(run.path / "model", data.task.name),
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


def _final(result: dict[str, Any]) -> list[Block]:
    """Scores of the final model that epochs do not have, with their signatures."""
    signatures = result["signatures"]
    if not signatures:
        return []
    facts = {name: f"{value:.4g}" for name, value in result["final"].items()}
    facts |= {f"signature of {name}": text for name, text in signatures.items()}
    return [Facts(facts, title="The final model on the dev examples (beam search)")]


def data_blocks(data: RunData) -> list[Block]:
    """Dataset statistics: number of rows, classes, lengths, and truncated or skipped rows."""
    train, dev = data.train, data.dev
    facts = {
        "training rows": train.num_rows,
        "dev examples": dev.num_rows,
        "skipped bad rows": data.data.skipped,
        "tokens in training rows": int(train.lengths.sum()),
        **_threshold_facts(data.task),
    }
    if isinstance(data.task, Tagging):
        facts |= tagging_facts(data.task, train, dev)
    elif isinstance(data.task, QuestionAnswering):
        facts |= qa_facts(data.task, train, dev)
    elif data.config.long == "windows" and not isinstance(data.task, Choice):
        windows = train.texts if isinstance(train, PairExamples) else train
        assert isinstance(windows, LongExamples)
        facts |= {
            f"training windows of {data.config.max_length} tokens": len(windows.input_ids),
            "training texts with more than the maximum of windows": windows.num_limited_rows,
            "skipped windows of them": windows.num_dropped_windows,
            "dev windows": len(dev.input_ids),
        }
    else:
        facts |= {
            f"training rows truncated to {data.config.max_length} tokens": train.num_truncated,
            "truncated dev examples": dev.num_truncated,
        }
    if isinstance(data.task, Choice):
        facts |= choice_facts(train, dev)
    blocks: list[Block] = [Facts(facts, title="The data")]
    if isinstance(data.task, Tagging):
        blocks.append(tag_bars(data.task, train))
    elif data.task.labels:
        counts = Counter(str(row.label) for row in data.data.train)
        total = sum(counts.values())
        bars = [Bar(label, count, f"{count:,} ({percent(count / total)})") for label, count in counts.most_common(30)]
        blocks.append(Bars(bars, title="Classes in the training rows"))
        if isinstance(data.task, Classification):
            blocks += imbalance_table(data.task, train)
    sequences = {"tagging": "windows", "qa": "windows", "choice": "choices"}.get(data.task.name, "rows")
    lengths = train.sequence_lengths if isinstance(train, ChoiceExamples) else train.lengths
    counts_by_length, edges = np.histogram(lengths, bins=min(30, max(int(lengths.max()), 2)))
    blocks.append(
        Histogram(
            edges.tolist(),
            counts_by_length.tolist(),
            title=f"Length of the training {sequences}",
            x_label="tokens",
            y_label=sequences,
            marks={"max_length": data.config.max_length},
        )
    )
    return blocks


def _threshold_facts(task: Task) -> dict[str, Any]:
    """The decision threshold chosen on the dev examples, if any, and how it is scored."""
    threshold = task.threshold if isinstance(task, Anomaly) else None
    name = "threshold on the error"
    if isinstance(task, Classification) and task.rare is not None:
        threshold, name = task.rare.threshold, f"threshold of '{task.rare.label}'"
    if threshold is None:
        return {}
    return {
        name: f"{threshold.value:.4f}, chosen on the dev examples",
        "dev scores": "cross-fitted: each half of the dev examples with the threshold of the other half",
    }


def _curves(seeds: Sequence[SeedResult], part: str, metric: str) -> Curves:
    records = [RunFolder(seed.folder, {}).records() for seed in seeds]

    charts = [
        Chart("Loss", [*show_series(records, "training", f"{part}_loss"), *show_series(records, "dev", "eval_loss")]),
        Chart(f"Dev {metric.replace('_', ' ')}", show_series(records, "dev", f"eval_{metric}")),
        Chart("Learning rate", show_series(records, "learning rate", "lr")[:1]),
        Chart("Tokens per second", show_series(records, "training", "tokens_per_second")),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def show_series(records: Sequence[Sequence[dict[str, Any]]], name: str, key: str) -> list[Series]:
    """One line per seed of the values that its records have under `key`."""
    lines = [[(record["step"], record[key]) for record in run if key in record] for run in records]
    return [Series(name, [x for x, _ in line], [y for _, y in line]) for line in lines]


def mistake_blocks(data: RunData, evaluation: Evaluation) -> list[Block]:
    """Confusion matrix and worst errors: by probability for classes, by distance for regression."""
    targets = data.dev.targets
    task, rows = data.task, data.data.dev
    if isinstance(task, Generation | Translation):
        return written_blocks(task, data)
    for kind, blocks in _MISTAKES.items():
        if isinstance(task, kind):
            return blocks(task, data.dev, evaluation.logits)
    if targets is None or (isinstance(task, Classification) and task.multi_label):
        return []
    if isinstance(task, Similarity):
        return _far_pairs(task, data, evaluation)
    if not isinstance(task, Classification):
        predicted = evaluation.logits.squeeze(-1)
        distance = (predicted - targets).abs()
        worst = distance.argsort(descending=True)[:WORST].tolist()
        errors = [
            WorstError(
                rows[i].text, f"{targets[i]:.2f}", f"{predicted[i]:.2f}", loss=float(distance[i] ** 2),
                text_pair=rows[i].text_pair, line=rows[i].line,
            )
            for i in worst
        ]  # fmt: skip
        return [WorstErrors(errors)]
    shares = task.probabilities(evaluation.logits)
    guess = torch.from_numpy(task.decide(evaluation.logits, task.out_of_fold_thresholds(evaluation.logits, data.dev)))
    wrong = (guess != targets).nonzero().flatten()
    order = wrong[shares[wrong, guess[wrong]].argsort(descending=True)][:WORST].tolist()
    errors = [
        WorstError(
            rows[i].text, task.labels[int(targets[i])], task.labels[int(guess[i])], float(shares[i, guess[i]]),
            text_pair=rows[i].text_pair, line=rows[i].line,
        )
        for i in order
    ]  # fmt: skip
    counts = torch.zeros(task.num_labels, task.num_labels, dtype=torch.int64)
    counts.index_put_((targets, guess), torch.ones_like(targets), accumulate=True)
    return [Confusion(task.labels, counts.tolist()), WorstErrors(errors)]


def _trust(data: RunData, evaluation: Evaluation) -> list[Block]:
    decisions = data.task.decisions(evaluation.logits, data.dev)
    abstains = isinstance(data.task, Classification)
    return [] if decisions is None else trust_blocks(decisions, data.task.temperature, abstains=abstains)


def _far_pairs(task: Similarity, data: RunData, evaluation: Evaluation) -> list[Block]:
    """The pairs whose cosine similarities are farthest from their gold scores."""
    losses, cosines = task.losses(evaluation.logits, data.dev), task.cosines(evaluation.logits)
    rows = data.dev.rows
    errors = [
        WorstError(
            rows[i].text, str(rows[i].label or "together"), f"{cosines[i]:.3f}", loss=float(losses[i]),
            text_pair=rows[i].text_pair, line=rows[i].line,
        )
        for i in losses.argsort(descending=True)[:WORST].tolist()
    ]  # fmt: skip
    note = "Predicted is the cosine similarity; it is compared with the gold score scaled to 0 to 1."
    return [WorstErrors(errors, title="Pairs with the largest error", note=note)]


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
