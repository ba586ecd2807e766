"""The page of a fine-tuning run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..tasks.anomaly import Anomaly
from ..tasks.base import Evaluation, Task
from ..tasks.choice import Choice
from ..tasks.choice_examples import ChoiceExamples
from ..tasks.classification import Classification
from ..tasks.examples import Examples
from ..tasks.generation import Generation
from ..tasks.long_examples import LongExamples
from ..tasks.qa import QuestionAnswering
from ..tasks.similar_rows import PairExamples
from ..tasks.similarity import Similarity
from ..tasks.tagging import Tagging
from ..tasks.translation import Translation
from .choice_report import choice_blocks, choice_facts, guessing
from .finetune_next import command_of, next_steps
from .generation_report import written_blocks
from .mixture import mixture_bars
from .qa_report import qa_facts, qa_mistakes, refusal_baseline
from .rare_report import anomaly_blocks, imbalance_table
from .report import (
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
    Score,
    Series,
    System,
    Weights,
    WhatRan,
    WorstError,
    WorstErrors,
    write_report,
)
from .report.numbers import percent, plus_minus
from .run import RunFolder
from .tagging_report import memory_baseline, tag_bars, tagging_blocks, tagging_facts
from .trust_report import trust_blocks

if TYPE_CHECKING:
    from .finetune import Bench
    from .seeds import Seed

WORST = 12
_MISTAKES: dict[type[Task], Callable[[Any, Examples, torch.Tensor], list[Block]]] = {
    Tagging: tagging_blocks,
    QuestionAnswering: qa_mistakes,
    Choice: choice_blocks,
    Anomaly: anomaly_blocks,
}


def write_finetune_report(
    run: RunFolder, bench: Bench, seeds: Sequence[Seed], evaluation: Evaluation, result: dict[str, Any]
) -> None:
    """Write report.html of a run. evaluation: on the dev rows, of the model that the run ends with."""
    metric = result["main_metric"]
    deviation = result["deviation"][metric] if len(seeds) > 1 else None
    dev = "rows set aside from the training file" if result["dev_from_train"] else "dev rows"
    over = f" over {len(seeds)} seeds" if len(seeds) > 1 else ""
    simple, words = baseline(bench)
    headline = (
        f"Dev {metric.replace('_', ' ')} {plus_minus(result['mean'][metric], deviation)}{over}, on "
        f"{bench.dev.num_rows:,} {dev}; {words} {simple:.3f}."
    )
    if result["average"] is not None:
        headline += f" The model is the mean of their weights: {result['average'][metric]:.3f}."
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
        WhatRan(
            shlex.join(command_of(run.recipe)),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        *_final(result),
        *data_blocks(bench),
        _curves(seeds, bench.task.name, metric),
        Weights(bench.loaded.loaded, bench.loaded.new, bench.loaded.unused),
        *_trust(bench, evaluation),
        *mistake_blocks(bench, evaluation),
        *_mixture(result.get("mix")),
        _comparison(seeds, metric, simple, words, result),
        next_steps(run.path / "model", bench.task.name),
    ]
    health = _health(result["mean"][metric], simple, words, result["dev_from_train"])
    report = Report(f"{bench.task.name} on {bench.config.train.name}", headline, health, blocks, run.facts()["started"])
    write_report(run.path / "report.html", report)


def _mixture(mix: dict[str, Any] | None) -> list[Block]:
    """What the head takes of each layer, where it reads a mix."""
    if mix is None:
        return []
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    return [mixture_bars(labels, mix["shares"], [percent(share) for share in mix["shares"]], mix["scale"])]


def _final(result: dict[str, Any]) -> list[Block]:
    """Scores of the final model that epochs do not have, and how they were computed."""
    signatures = result["signatures"]
    if not signatures:
        return []
    facts = {name: f"{value:.4g}" for name, value in result["final"].items()}
    facts |= {f"signature of {name}": text for name, text in signatures.items()}
    return [Facts(facts, title="The model on the dev rows, written with beams")]


def baseline(bench: Bench) -> tuple[float, str]:
    """The main metric of always giving the commonest class, or of a constant, and how to call it."""
    targets = bench.dev.targets
    for kind, (simple, words) in _BASELINES.items():
        if isinstance(bench.task, kind):
            return simple(bench), words
    if targets is not None and bench.task.main_metric == "pr_auc":
        return _share_of_rare(bench), "drawing lots gets"
    if isinstance(bench.task, Classification) and not bench.task.multi_label and targets is not None:
        same = torch.zeros(len(targets), bench.task.num_labels)
        same[:, _commonest(bench)] = 100.0  # so sure that no threshold is in its way
        found = bench.task.metrics(same, targets)
        return found[bench.task.main_metric], f"always '{bench.task.labels[_commonest(bench)]}' gets"
    return 0.0, "a constant gets"


def _untrained(bench: Bench) -> float:
    return bench.task.evaluate(bench.first_model(), bench.dev).metrics[bench.task.main_metric]


def _memorised(bench: Bench) -> float:
    assert isinstance(bench.task, Tagging)
    return memory_baseline(bench.task, bench.data.train, bench.data.dev)


def _guessed(bench: Bench) -> float:
    return guessing(bench.dev)


def _refused(bench: Bench) -> float:
    return refusal_baseline(bench.dev)


_BASELINES: dict[type[Task], tuple[Callable[[Bench], float], str]] = {
    Tagging: (_memorised, "each word's commonest tag gets"),
    Choice: (_guessed, "guessing gets"),
    QuestionAnswering: (_refused, "answering nothing gets"),
    Similarity: (_untrained, "the model before training gets"),
    Translation: (_untrained, "the model before training gets"),
    Generation: (_untrained, "the model before training gets"),
}


def _commonest(bench: Bench) -> int:
    return int(torch.bincount(bench.train.targets).argmax())  # type: ignore[arg-type]


def _share_of_rare(bench: Bench) -> float:
    """The part of the dev rows that are of the class in question: what pr_auc is by chance."""
    task = bench.task
    if isinstance(task, Classification) and task.rare is not None:
        return task.imbalance(bench.dev).shares[task.labels.index(task.rare.label)]
    return float((bench.dev.targets == 1).float().mean())  # type: ignore[union-attr]


def _health(score: float, simple: float, words: str, from_train: bool) -> Health:
    before = "what it was before training" if "before training" in words else "no model at all"
    if score <= simple + (0.0 if "before training" in words else 0.01):
        if score >= 1.0:
            return Health("watch", [f"All is right, but the dev rows are too easy to show it: {words} {simple:.3f}."])
        return Health("bad", [f"It is no better than {before}: {words} {simple:.3f}. Train longer or raise --lr."])
    reasons = [f"It is better than {before}: {words} {simple:.3f}."]
    if from_train:
        reasons.append("The dev rows come from the training file; a file of their own would say more.")
    return Health("watch" if from_train else "good", reasons)


def data_blocks(bench: Bench) -> list[Block]:
    """What the rows are: how many, of which classes, how long, and what was cut."""
    train, dev = bench.train, bench.dev
    facts = {
        "training rows": train.num_rows,
        "dev rows": dev.num_rows,
        "bad rows left out": bench.data.skipped,
        "tokens in training rows": int(train.lengths.sum()),
        **_threshold_facts(bench.task),
    }
    if isinstance(bench.task, Tagging):
        facts |= tagging_facts(bench.task, train, dev)
    elif isinstance(bench.task, QuestionAnswering):
        facts |= qa_facts(bench.task, train, dev)
    elif bench.config.long == "windows" and not isinstance(bench.task, Choice):
        windows = train.texts if isinstance(train, PairExamples) else train
        assert isinstance(windows, LongExamples)
        facts |= {
            f"training windows of {bench.config.max_length} tokens": len(windows.input_ids),
            "training texts of more windows than are read": windows.num_thinned,
            "windows left out of them": windows.num_left_out,
            "dev windows": len(dev.input_ids),
        }
    else:
        facts |= {
            f"training rows cut to {bench.config.max_length} tokens": train.num_truncated,
            "dev rows cut": dev.num_truncated,
        }
    if isinstance(bench.task, Choice):
        facts |= choice_facts(train, dev)
    blocks: list[Block] = [Facts(facts, title="The data")]
    if isinstance(bench.task, Tagging):
        blocks.append(tag_bars(bench.task, train))
    elif bench.task.labels:
        counts = Counter(str(row.label) for row in bench.data.train)
        total = sum(counts.values())
        bars = [Bar(label, count, f"{count:,} ({percent(count / total)})") for label, count in counts.most_common(30)]
        blocks.append(Bars(bars, title="Classes in the training rows"))
        if isinstance(bench.task, Classification):
            blocks += imbalance_table(bench.task, train)
    sequences = {"tagging": "windows", "qa": "windows", "choice": "choices"}.get(bench.task.name, "rows")
    lengths = train.sequence_lengths if isinstance(train, ChoiceExamples) else train.lengths
    counts_by_length, edges = np.histogram(lengths, bins=min(30, max(int(lengths.max()), 2)))
    blocks.append(
        Histogram(
            edges.tolist(),
            counts_by_length.tolist(),
            title=f"Length of the training {sequences}",
            x_label="tokens",
            y_label=sequences,
            marks={"max_length": bench.config.max_length},
        )
    )
    return blocks


def _threshold_facts(task: Task) -> dict[str, Any]:
    """The threshold that the dev rows chose, if one is wanted, and how it is scored."""
    threshold = task.threshold if isinstance(task, Anomaly) else None
    name = "threshold on the error"
    if isinstance(task, Classification) and task.rare is not None:
        threshold, name = task.rare.threshold, f"threshold of '{task.rare.label}'"
    if threshold is None:
        return {}
    return {
        name: f"{threshold.value:.4f}, chosen on the dev rows",
        "dev scores": "each half of the dev rows with the threshold of the other half",
    }


def _curves(seeds: Sequence[Seed], part: str, metric: str) -> Curves:
    records = [RunFolder(seed.folder, {}).records() for seed in seeds]

    charts = [
        Chart("Loss", [*show_series(records, "training", f"{part}_loss"), *show_series(records, "dev", "eval_loss")]),
        Chart(f"Dev {metric.replace('_', ' ')}", show_series(records, "dev", f"eval_{metric}")),
        Chart("Learning rate", show_series(records, "rate", "lr")[:1]),
        Chart("Tokens per second", show_series(records, "training", "tokens_per_second")),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def show_series(records: Sequence[Sequence[dict[str, Any]]], name: str, key: str) -> list[Series]:
    """A line for each seed, of what its records have under `key`."""
    lines = [[(record["step"], record[key]) for record in run if key in record] for run in records]
    return [Series(name, [x for x, _ in line], [y for _, y in line]) for line in lines]


def mistake_blocks(bench: Bench, evaluation: Evaluation) -> list[Block]:
    """Confusion matrix and worst rows: by probability for classes, by distance for numbers."""
    targets = bench.dev.targets
    task, rows = bench.task, bench.data.dev
    if isinstance(task, Generation | Translation):
        return written_blocks(task, bench)
    for kind, blocks in _MISTAKES.items():
        if isinstance(task, kind):
            return blocks(task, bench.dev, evaluation.logits)
    if targets is None or (isinstance(task, Classification) and task.multi_label):
        return []
    if isinstance(task, Similarity):
        return _far_pairs(task, bench, evaluation)
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
    guess = torch.from_numpy(task.decide(evaluation.logits, task.fair_cuts(evaluation.logits, bench.dev)))
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


def _trust(bench: Bench, evaluation: Evaluation) -> list[Block]:
    decisions = bench.task.decisions(evaluation.logits, bench.dev)
    abstains = isinstance(bench.task, Classification)
    return [] if decisions is None else trust_blocks(decisions, bench.task.temperature, abstains=abstains)


def _far_pairs(task: Similarity, bench: Bench, evaluation: Evaluation) -> list[Block]:
    """The pairs whose cosines are the farthest from their scores."""
    losses, cosines = task.losses(evaluation.logits, bench.dev), task.cosines(evaluation.logits)
    rows = bench.dev.rows
    errors = [
        WorstError(
            rows[i].text, str(rows[i].label or "together"), f"{cosines[i]:.3f}", loss=float(losses[i]),
            text_pair=rows[i].text_pair, line=rows[i].line,
        )
        for i in losses.argsort(descending=True)[:WORST].tolist()
    ]  # fmt: skip
    note = "Predicted is the cosine; it is compared with the gold score brought to 0 to 1."
    return [WorstErrors(errors, title="Pairs that are the farthest off", note=note)]


def _comparison(seeds: Sequence[Seed], metric: str, simple: float, words: str, result: dict[str, Any]) -> Comparison:
    scores = [seed.metrics[metric] for seed in seeds]
    own = Score(result["mean"][metric], result["deviation"][metric] if len(seeds) > 1 else None, scores)
    average = result["average"]
    return Comparison(
        [
            System("this run", {metric: own}, seeds=len(seeds)),
            *([] if average is None else [System("mean of their weights", {metric: average[metric]})]),
            System(words.removesuffix(" gets"), {metric: simple}, source="baseline"),
        ],
        note="The dev rows chose the best epoch of each seed, so these scores are a little high; test rows that "
        "decided nothing tell the rest: maskwright evaluate.",
    )
