"""Report blocks for tagging: tag counts, scores by entity type, confusions, worst errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...report import Block, Confusion, Facts, WorstError, WorstErrors
from ...text.readers.tagged import MISSING, as_sentences
from ..base import Evaluation
from ..report import WORST, TaskReport, counts_chart
from .examples import TaggedExamples
from .schemes import OUTSIDE, agreement, spans, split_tag
from .task import Tagging

MOST_TAGS = 24  # largest confusion matrix


class TaggingReport(TaskReport[Tagging]):
    """Blocks of a token classifier."""

    sequences = "windows"

    def facts(self) -> dict[str, Any]:
        """Returns the tagging scheme, and words, windows and repaired tags of both splits."""
        facts: dict[str, Any] = {"how tags are spelled": _written(self.task)}
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, TaggedExamples)
            facts |= {f"words in {name} rows": examples.num_words, f"windows of {name} rows": len(examples)}
            if self.task.scheme is not None:
                facts[f"{name} tags repaired"] = examples.num_repaired
            if examples.gold is not None and examples.gold.missing:
                facts[f"{name} words without a tag"] = examples.gold.missing.total()
        return facts

    def labels(self) -> list[Block]:
        """Returns a chart of the tags, or of the entity types, of the training rows."""
        assert isinstance(self.data.train, TaggedExamples)
        gold = self.task.gold_of(self.data.train)
        if self.task.scheme is None:
            return [
                counts_chart(
                    Counter(tag for tags in gold for tag in tags if tag != MISSING), "Tags in the training rows"
                )
            ]
        types = Counter(entity.type for tags in gold for entity in spans(tags))
        return [counts_chart(types, "Entities in the training rows")]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns scores by entity type, a confusion matrix over words, and the worst sentences."""
        task, dev, logits = self.task, self.data.dev, evaluation.logits
        assert isinstance(dev, TaggedExamples)
        gold, found = task.gold_of(dev), task.tags_of(logits, dev)
        blocks: list[Block] = [_by_type(gold, found)] if task.scheme is not None else []
        confusion = _confusion(task, gold, found)
        return [*blocks, *([] if confusion is None else [confusion]), _worst(task, dev, logits, gold, found)]


def _written(task: Tagging) -> str:
    return "each is a name by itself" if task.notation is None else task.notation.description


def _by_type(gold: list[list[str]], found: list[list[str]]) -> Facts:
    by_type = agreement(gold, found, spans)
    rows = {
        type: f"F1 {score.f1:.3f}, precision {score.precision:.3f}, recall {score.recall:.3f}; {score.both:,} of "
        f"{score.gold:,} found, {score.found - score.both:,} wrong ones"
        for type, score in sorted(by_type.items())
        if type
    }
    return Facts(rows, title="Scores by type of entity")


def _confusion(task: Tagging, gold: list[list[str]], found: list[list[str]]) -> Confusion | None:
    """Confusion matrix over words; prefixes such as B- and I- are ignored."""

    def name(tag: str) -> str:
        type = "" if task.scheme is None else split_tag(tag)[1]
        return f"type {type}" if type == OUTSIDE else type or tag

    labels = list(dict.fromkeys(map(name, task.tags)))
    if len(labels) > MOST_TAGS:
        return None
    place = {label: number for number, label in enumerate(labels)}
    counts = torch.zeros(len(labels), len(labels), dtype=torch.int64)
    for truth, guess in zip(gold, found, strict=True):
        for one, other in zip(truth, guess, strict=True):
            if one == MISSING:
                continue
            counts[place[name(one)], place[name(other)]] += 1
    return Confusion(labels, counts.tolist(), title="Where it confuses words")


def _worst(
    task: Tagging, dev: TaggedExamples, logits: Tensor, gold: list[list[str]], found: list[list[str]]
) -> WorstErrors:
    """The wrong sentences with the largest mean loss, with gold and predicted tags where they differ."""
    rows, losses = as_sentences(dev.rows), task.losses(logits, dev)
    order = losses.argsort(descending=True).tolist()
    wrong = [row for row in order if _differences(rows[row].words, gold[row], found[row])[0]][:WORST]
    return WorstErrors(
        [
            WorstError(
                rows[row].text, *_differences(rows[row].words, gold[row], found[row]), loss=float(losses[row]),
                line=rows[row].line,
            )
            for row in wrong
        ]
    )  # fmt: skip


def _differences(words: Sequence[str], gold: Sequence[str], found: Sequence[str]) -> tuple[str, str]:
    """The words with wrong tags, with the gold tags and with the predicted ones."""
    triples = zip(words, gold, found, strict=True)
    differ = [(word, one, other) for word, one, other in triples if one not in (MISSING, other)]
    return ", ".join(f"{word}/{one}" for word, one, _ in differ), ", ".join(
        f"{word}/{other}" for word, _, other in differ
    )
