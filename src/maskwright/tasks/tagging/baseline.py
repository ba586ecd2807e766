"""The most-frequent-tag baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ...text.readers.tagged import MISSING, Sentence


def most_frequent_tags(
    train: Sequence[Sentence], train_tags: Sequence[Sequence[str]], dev: Sequence[Sentence]
) -> list[list[str]]:
    """Returns the most frequent training tag of each dev word; unknown words get the most frequent tag overall."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for row, tags in zip(train, train_tags, strict=True):
        for word, tag in zip(row.words, tags, strict=True):
            if tag != MISSING:
                seen[word][tag] += 1
                every[tag] += 1
    usual = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    most_frequent = every.most_common(1)[0][0]
    return [[usual.get(word, most_frequent) for word in row.words] for row in dev]
