"""Holds out rows for validation: a share of the rows, in proportion of their labels, and no text on both sides.

Rows are divided as whole groups: rows of one text (apart from case, spacing and punctuation), of nearly one text
(`text.fingerprints`), or of one value of a group column. The labels are visited from the rarest to the most common, as
in iterative stratification (Sechidis et al. 2011), and what rounding leaves of one label is owed to the next, so that
many small classes together also lose no more than the share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator
from ..text.fingerprints import NEAR, RowFingerprints, equal_rows, near_pairs, overlap, words_of

Texts = tuple[str, str | None]


def hold_out(
    labels: Sequence[Collection[str]],
    texts: Sequence[Texts],
    share: float,
    seed: int,
    groups: Sequence[str] | None = None,
) -> set[int]:
    """Returns the indices of the held-out rows, the same for the same seed, in time linear in the rows.

    labels: the labels of each row, () for none; texts: text and second text of each row, which are compared; share: of
    the rows, at least one; groups: a value per row whose rows stay together. Every label keeps a row for training.
    Raises InputError if no row can be held out.
    """
    group = group_rows(texts, round(len(texts) * share), groups)
    counts = Counter(label for row in labels for label in set(row) or ("",))
    units: dict[int, list[int]] = {}
    for row, number in enumerate(group.tolist()):
        units.setdefault(number, []).append(row)
    order = generator(seed, "held-out rows").permutation(len(units)).tolist()
    whole = list(units.values())
    shuffled = [whole[place] for place in order]
    unit_counts = [Counter(label for row in rows for label in set(labels[row]) or ("",)) for rows in shuffled]
    by_label: dict[str, list[int]] = {}
    for number, own in enumerate(unit_counts):
        for label in own:
            by_label.setdefault(label, []).append(number)
    most = {label: min(count - 1, math.ceil(2 * share * count)) for label, count in counts.items()}
    wanted = {label: min(math.ceil(share * count), most[label]) for label, count in counts.items()}
    held: Counter[str] = Counter()
    chosen: set[int] = set()

    def take(number: int) -> None:
        chosen.add(number)
        held.update(unit_counts[number])

    rank = dict(zip(by_label, generator(seed, "held-out labels").permutation(len(by_label)).tolist(), strict=True))
    owed, visited = 0.0, set[str]()
    for label in sorted(by_label, key=lambda one: (counts[one], rank[one])):
        owed += share * counts[label] - held[label]
        visited.add(label)
        for limit in (wanted, most):  # first those whose other labels are still wanted
            for number in by_label[label]:
                if owed < 0.5 or held[label] >= limit[label]:
                    break
                own = unit_counts[number]
                if number in chosen or own[label] > owed + 0.5:
                    continue
                if all(held[other] + count <= limit[other] for other, count in own.items()):
                    take(number)
                    owed -= sum(count for other, count in own.items() if other in visited)
    if not chosen:  # few rows, or all groups are larger than the share
        small = [number for number, rows in enumerate(shuffled) if 4 * len(rows) <= len(labels)]
        small = [n for n in small if all(held[one] + k <= counts[one] - 1 for one, k in unit_counts[n].items())]
        if not small:
            raise InputError("no row can be held out: each label has one text, or one group of rows, only.")
        take(min(small, key=lambda number: len(shuffled[number])))
    return {row for number in chosen for row in shuffled[number]}


def group_rows(texts: Sequence[Texts], largest: int, groups: Sequence[str] | None = None) -> np.ndarray:
    """Returns the group of each row, int64 [rows]: rows of equal or nearly equal texts, or of one value of `groups`.

    Nearly equal texts share a group up to `largest` rows, so that texts from one template can still be divided.
    """
    texts = [
        (text, pair) if pair is None or text.casefold() <= pair.casefold() else (pair, text) for text, pair in texts
    ]  # pairs of either order
    prints = RowFingerprints()
    for text, pair in texts:
        prints.add(text, pair)
    prints.close()
    leader = equal_rows(prints.plain)[1].tolist()
    size = Counter(leader)

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    def unite(one: int, other: int, most: float) -> None:
        one, other = sorted((find(one), find(other)))
        if one != other and size[one] + size[other] <= most:
            leader[other] = one
            size[one] += size[other]

    first_of: dict[str, int] = {}
    for row, value in enumerate(groups or ()):
        unite(first_of.setdefault(value, row), row, math.inf)
    for one, other in near_pairs(prints.plain, prints.bands)[0].tolist():
        if find(one) != find(other) and _is_near(texts[one], texts[other]):
            unite(one, other, largest)
    return np.array([find(row) for row in range(len(leader))], dtype=np.int64)


def _is_near(one: Texts, other: Texts) -> bool:
    """Whether most of the words, or of their bigrams, of two rows are the same."""
    if (one[1] is None) != (other[1] is None):
        return False
    return all(
        left == right or _overlap(left or "", right or "") >= NEAR for left, right in zip(one, other, strict=True)
    )


def _overlap(one: str, other: str) -> float:
    words, others = set(words_of(one)), set(words_of(other))
    return max(len(words & others) / max(len(words | others), 1), overlap(one, other))
