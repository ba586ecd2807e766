"""Samples train, dev and test splits with a minority class at a given rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import InputError, RowError, RowErrors
from ...core.randomness import generator
from ...core.registry import unknown_name
from ...text.readers.tables import Row
from .thresholds import row_key

REST, RARE = "rest", "rare"
TEST_SHARE = DEV_SHARE = 0.2
LEAST = 2  # minimum rows of the class per split


@dataclass(frozen=True)
class Parts:
    """Rows relabeled as RARE or REST. test_classes: original labels of the test rows."""

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    test_classes: list[str]


class MinorityClassSampler:
    """Samples distinct rows, with the rare class or the rest downsampled to the rate.

    The test rows are sampled once with `seed`; `parts` samples the other splits with their own seed.
    """

    def __init__(
        self, rows: Sequence[Row], rare_class: str, rate: float, *, max_train_rows: int | None = None, seed: int = 0
    ) -> None:
        """Raises InputError if the class or other classes are missing, or the rate leaves too few rows of the class."""
        distinct = list({row_key(row.text, row.text_pair): row for row in reversed(rows)}.values())[::-1]
        self.num_repeated = len(rows) - len(distinct)
        rare, rest = _two_kinds(distinct, rare_class)
        num_rare = min(len(rare), round(len(rest) * rate / (1 - rate)))
        num_rest = min(len(rest), round(len(rare) * (1 - rate) / rate))
        chosen = [_shuffled(kind, seed, f"rare pool {name}") for kind, name in ((rare, RARE), (rest, REST))]
        self.sizes = _sizes(num_rare, num_rest, rate, max_train_rows)
        if min(rare_rows for rare_rows, _ in self.sizes) < LEAST:
            raise InputError(
                f"At a rate of {rate:g} the class '{rare_class}' ({len(rare):,} rows and {len(rest):,} others) has "
                f"{', '.join(str(rare_rows) for rare_rows, _ in self.sizes)} rows in train, dev and test, too few to "
                f"train and score: raise the rate or --max-train-rows, or pass more rows."
            )
        pools = [kind[:count] for kind, count in zip(chosen, (num_rare, num_rest), strict=True)]
        counts = self.sizes[2]
        self._test = [pool[:count] for pool, count in zip(pools, counts, strict=True)]
        self._others = [pool[count:] for pool, count in zip(pools, counts, strict=True)]

    def parts(self, seed: int) -> Parts:
        """The splits for a seed; the test rows are the same for all seeds."""
        drawn = [_shuffled(pool, seed, f"rare parts {place}") for place, pool in enumerate(self._others)]
        (train_rare, train_rest), (dev_rare, dev_rest), _ = self.sizes
        train = _named(drawn[0][:train_rare], drawn[1][:train_rest])
        dev = _named(drawn[0][train_rare : train_rare + dev_rare], drawn[1][train_rest : train_rest + dev_rest])
        return Parts(train, dev, _named(*self._test), [str(row.label) for kind in self._test for row in kind])


def _two_kinds(rows: Sequence[Row], rare_class: str) -> tuple[list[Row], list[Row]]:
    missing = [RowError(row.file, row.line, "label", "is missing") for row in rows if row.label is None]
    if missing:
        raise RowErrors(missing)
    classes = sorted({str(row.label) for row in rows})
    if rare_class not in classes:
        raise InputError(unknown_name("class", rare_class, classes[:20]))
    if len(classes) == 1:
        raise InputError(f"All rows are of the class '{rare_class}': also pass rows of another class.")
    return [row for row in rows if row.label == rare_class], [row for row in rows if row.label != rare_class]


def _sizes(num_rare: int, num_rest: int, rate: float, most: int | None) -> list[tuple[int, int]]:
    """Rare and other rows of train, dev and test."""
    total = num_rare + num_rest
    test, dev = int(total * TEST_SHARE), int(total * DEV_SHARE)
    sizes = [total - dev - test, dev, test]
    if most is not None:
        sizes = [min(size, limit) for size, limit in zip(sizes, (most, most, 2 * most), strict=True)]
    return [(int(size * rate), size - int(size * rate)) for size in sizes]


def _shuffled(rows: Sequence[Row], seed: int, purpose: str) -> list[Row]:
    order: np.ndarray = generator(seed, purpose).permutation(len(rows))
    return [rows[place] for place in order.tolist()]


def _named(rare: Sequence[Row], rest: Sequence[Row]) -> list[Row]:
    return [replace(row, label=RARE) for row in rare] + [replace(row, label=REST) for row in rest]
