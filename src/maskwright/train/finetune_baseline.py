"""The trivial baseline of each task on the dev rows, by the same metric as the trained model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..tasks.base import Task
from ..tasks.choice.report import chance_accuracy
from ..tasks.choice.task import Choice
from ..tasks.classification.task import Classification
from ..tasks.generation.task import Generation
from ..tasks.qa.report import no_answer_baseline
from ..tasks.qa.task import QuestionAnswering
from ..tasks.similarity.task import Similarity
from ..tasks.tagging.report import most_frequent_tag_baseline
from ..tasks.tagging.task import Tagging
from ..tasks.translation.task import Translation
from .against_baseline import MARGIN, Compared

UNTRAINED = "the model before training"


def compare_with_baseline(bench: Any, score: float) -> Compared:
    """The main metric of a trained model compared with its trivial baseline.

    bench: has `task`, and its rows as `train` and `dev` examples; for tagging also `data`, the rows; and `first_model`
    for tasks whose baseline is the model before training.
    """
    baseline, predictor = trivial_baseline(bench)
    margin = 0.0 if predictor == UNTRAINED else MARGIN
    return Compared(bench.task.main_metric, score, baseline, predictor, margin)


def trivial_baseline(bench: Any) -> tuple[float, str]:
    """The main metric of what needs no trained model, and what that is; bench: as `compare_with_baseline` takes it."""
    task, targets = bench.task, bench.dev.targets
    for kind, (simple, words) in _BASELINES.items():
        if isinstance(task, kind):
            return simple(bench), words
    if targets is not None and task.main_metric == "pr_auc":
        return _fraction_of_rare(bench), "random order"
    if isinstance(task, Classification) and targets is not None:
        common = _most_common(bench)
        same = torch.full((len(targets), task.num_labels), -100.0)  # so certain that no threshold decides otherwise
        same[:, common] = 100.0
        return task.metrics(same, targets)[task.main_metric], f"always '{task.labels[common]}'"
    return 0.0, "a constant"


def _untrained(bench: Any) -> float:
    found: float = bench.task.evaluate(bench.first_model(), bench.dev).metrics[bench.task.main_metric]
    return found


_BASELINES: dict[type[Task], tuple[Callable[[Any], float], str]] = {
    Tagging: (
        lambda bench: most_frequent_tag_baseline(bench.task, bench.data.train, bench.data.dev),
        "each word's most common tag",
    ),
    Choice: (lambda bench: chance_accuracy(bench.dev), "guessing"),
    QuestionAnswering: (lambda bench: no_answer_baseline(bench.dev), "answering nothing"),
    Similarity: (_untrained, UNTRAINED),
    Translation: (_untrained, UNTRAINED),
    Generation: (_untrained, UNTRAINED),
}


def _most_common(bench: Any) -> int:
    """The number of the label that most training rows have."""
    targets = bench.train.targets
    counts = targets.sum(dim=0) if bench.task.multi_label else torch.bincount(targets)
    return int(counts.argmax())


def _fraction_of_rare(bench: Any) -> float:
    """The fraction of the dev rows that are of the class in question: the expected pr_auc of a random order."""
    task = bench.task
    if isinstance(task, Classification) and task.rare is not None:
        return task.imbalance(bench.dev).shares[task.labels.index(task.rare.label)]
    return float((bench.dev.targets == 1).float().mean())
