"""Report blocks for tagging: tag counts, scores by entity type, confusions, worst errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...report import Bar, Bars, Block, Confusion, Facts, WorstError, WorstErrors
from ...report.numbers import percent
from ...text.readers.tagged import Sentence, as_sentences
from ..rows.examples import Examples
from .examples import TaggedExamples
from .schemes import agreement, spans, split_tag
from .task import Tagging

WORST = 12
MOST_TAGS = 24  # largest confusion matrix


def most_frequent_tag_baseline(task: Tagging, train: Sequence[Sentence], dev: Sequence[Sentence]) -> float:
    """Main metric of the most-frequent-tag baseline; unknown words get the most frequent tag overall."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for row in train:
        for word, tag in zip(row.words, row.tags or (), strict=True):
            seen[word][tag] += 1
            every[tag] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    most_frequent = every.most_common(1)[0][0]
    found = [[usual.get(word, most_frequent) for word in row.words] for row in dev]
    gold = [task.repair_tags(row.tags or ())[0] for row in dev]
    return task.metrics(gold, found)[task.main_metric]


def tagging_facts(task: Tagging, train: Examples, dev: Examples) -> dict[str, Any]:
    """Tagging scheme; words, windows and repaired tags of both splits."""
    facts: dict[str, Any] = {"how tags are spelled": task.scheme or "each is a name by itself"}
    for name, examples in (("training", train), ("dev", dev)):
        assert isinstance(examples, TaggedExamples)
        facts |= {f"words in {name} rows": examples.num_words, f"windows of {name} rows": len(examples)}
        if task.scheme is not None:
            facts[f"{name} tags repaired"] = examples.num_repaired
    return facts


def tag_bars(task: Tagging, train: Examples) -> Bars:
    """Count of each tag, or of each entity type, in the training rows."""
    assert isinstance(train, TaggedExamples)
    gold = task.gold_of(train)
    names = [tag for tags in gold for tag in tags]
    if task.scheme is not None:
        names = [entity.type for tags in gold for entity in spans(tags)]
    counts = Counter(names)
    total = max(sum(counts.values()), 1)
    bars = [Bar(name, count, f"{count:,} ({percent(count / total)})") for name, count in counts.most_common(30)]
    return Bars(bars, title="Tags in the training rows" if task.scheme is None else "Entities in the training rows")


def tagging_blocks(task: Tagging, dev: Examples, logits: Tensor) -> list[Block]:
    """Scores by entity type, word confusion matrix, and the worst sentences."""
    assert isinstance(dev, TaggedExamples)
    gold, found = task.gold_of(dev), task.tags_of(logits, dev)
    blocks: list[Block] = [_by_type(gold, found)] if task.scheme is not None else []
    confusion = _confusion(task, gold, found)
    return [*blocks, *([] if confusion is None else [confusion]), _worst(task, dev, logits, gold, found)]


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
        return tag if task.scheme is None else split_tag(tag)[1] or tag

    labels = list(dict.fromkeys(map(name, task.labels)))
    if len(labels) > MOST_TAGS:
        return None
    place = {label: number for number, label in enumerate(labels)}
    counts = torch.zeros(len(labels), len(labels), dtype=torch.int64)
    for truth, guess in zip(gold, found, strict=True):
        for one, other in zip(truth, guess, strict=True):
            counts[place[name(one)], place[name(other)]] += 1
    return Confusion(labels, counts.tolist(), title="Where it confuses words")


def _worst(
    task: Tagging, dev: TaggedExamples, logits: Tensor, gold: list[list[str]], found: list[list[str]]
) -> WorstErrors:
    """The wrong sentences with the largest mean loss, with gold and predicted tags where they differ."""
    rows, losses = as_sentences(dev.rows), task.losses(logits, dev)
    wrong = [row for row in losses.argsort(descending=True).tolist() if gold[row] != found[row]][:WORST]
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
    differ = [(word, one, other) for word, one, other in zip(words, gold, found, strict=True) if one != other]
    return ", ".join(f"{word}/{one}" for word, one, _ in differ), ", ".join(
        f"{word}/{other}" for word, _, other in differ
    )
