"""Label checks: class frequencies, inconsistently spelled labels and numeric outliers."""

from __future__ import annotations

import math
from collections import Counter

from ..core.plural import plural
from ..text.formats.cells import LABEL_SEPARATOR
from .findings import Finding, FindingCounter, SourceLocation
from .rows import Item

FEW = 10  # a class with fewer rows is reported
MAX_LABELS = 10_000  # more distinct values are numbers or not labels
_IMBALANCE = 20  # reported ratio of the largest class to the smallest


class Labels:
    """Label statistics of one file, with at most MAX_LABELS distinct labels in memory."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}
        self.missing, self.no_numbers = FindingCounter(), FindingCounter()
        self.is_open, self.num_rows = True, 0
        self.low, self.high, self.total, self.squares, self.num_numbers = math.inf, -math.inf, 0.0, 0.0, 0
        self.has_fraction = False

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        self.num_rows += 1
        if item.label is None:
            self.missing.add(self.file, item.line)
            return
        for label in item.label.split(LABEL_SEPARATOR) if LABEL_SEPARATOR in item.label else (item.label,):
            if self.is_open:
                self.counts[label] += 1
                self.where.setdefault(label, item.line)
                self.is_open = len(self.counts) <= MAX_LABELS
        self._see_number(item)

    def _see_number(self, item: Item) -> None:
        try:
            value = float(item.label or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.no_numbers.add(self.file, item.line, f"'{(item.label or '')[:40]}'")
            return
        self.num_numbers += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total, self.squares = self.total + value, self.squares + value * value
        self.has_fraction = self.has_fraction or value != int(value)

    @property
    def looks_numeric(self) -> bool:
        """Whether the labels are regression targets rather than class names."""
        many = len(self.counts) > 20 or self.has_fraction
        return self.num_numbers > 0 and not self.no_numbers.count and many

    def findings(self, is_regression: bool) -> list[Finding]:
        """Return the findings."""
        found = self.missing.finding(
            "no-label",
            "problem",
            "{count:row has|rows have} no label.",
            "Label them, or skip them with --skip-bad-rows.",
        )
        if not self.num_rows or self.missing.count == self.num_rows:
            return found
        return found + (self._of_numbers() if is_regression else self._of_classes())

    def _of_numbers(self) -> list[Finding]:
        found = self.no_numbers.finding(
            "no-number", "problem", "{count:label is not a finite number|labels are not finite numbers}."
        )
        if self.num_numbers > 1 and self.low == self.high:
            sentence = f"Every label is {self.low:g}: there is nothing to learn."
            found.append(Finding("constant-label", "problem", sentence, self.num_numbers))
            return found
        mean = self.total / max(self.num_numbers, 1)
        deviation = math.sqrt(max(self.squares / max(self.num_numbers, 1) - mean * mean, 0.0))
        if deviation and max(self.high - mean, mean - self.low) > 6 * deviation:
            spread = f"{self.low:g} to {self.high:g}"
            sentence = f"Labels range from {spread}, over 6 standard deviations ({deviation:.3g}) off the mean."
            found.append(Finding("far-off-label", "warning", sentence, 1, "Check these labels for typing errors."))
        return found

    def _of_classes(self) -> list[Finding]:
        if len(self.counts) < 2:
            sentence = f"Every row has the label '{next(iter(self.counts))}': there is nothing to learn."
            return [Finding("constant-label", "problem", sentence, self.num_rows)]
        if not self.is_open:
            sentence = f"There are more than {MAX_LABELS:,} different labels."
            return [
                Finding("too-many-labels", "problem", sentence, MAX_LABELS, "Check the label column; see --columns.")
            ]
        found = []
        few = {label: count for label, count in self.counts.items() if count < FEW}
        if few:
            places = [
                SourceLocation(self.file, self.where[label], f"'{label[:40]}': {plural(count, 'row')}")
                for label, count in list(few.items())[:5]
            ]
            have = "has" if len(few) == 1 else "have"
            sentence = f"{len(few):,} of {len(self.counts):,} classes {have} fewer than {FEW} rows."
            found.append(Finding("few-rows", "warning", sentence, len(few), "Add rows, or merge classes.", places))
        most, least = max(self.counts.values()), min(self.counts.values())
        if most >= _IMBALANCE * least:
            sentence = f"The most frequent class has {plural(most, 'row')} and the rarest {least:,}."
            found.append(Finding("uneven-classes", "note", sentence, most, "See --class-weight balanced."))
        return found + self._alike()

    def _alike(self) -> list[Finding]:
        """Find classes whose names differ only in case or spacing."""
        names: dict[str, list[str]] = {}
        for label in self.counts:
            names.setdefault(" ".join(label.casefold().split()), []).append(label)
        same = [group for group in names.values() if len(group) > 1]
        places = [
            SourceLocation(self.file, self.where[group[1]], " and ".join(repr(name) for name in group))
            for group in same[:5]
        ]
        if not same:
            return []
        sentence = f"{plural(len(same), 'class is', 'classes are')} spelled in several ways."
        return [Finding("labels-alike", "problem", sentence, len(same), "Use one spelling per label.", places)]


def against(train: Labels, dev: Labels) -> list[Finding]:
    """Find classes that only one of the two files has."""
    unknown = [label for label in dev.counts if label not in train.counts]
    unseen = [label for label in train.counts if label not in dev.counts]
    found = []
    if unknown:
        places = [SourceLocation(dev.file, dev.where[label], f"'{label[:40]}'") for label in unknown[:5]]
        count = sum(dev.counts[label] for label in unknown)
        sentence = f"{plural(count, 'dev row has', 'dev rows have')} a label that training does not have."
        found.append(
            Finding(
                "unknown-dev-labels", "problem", sentence, count, "Fix them, or move such rows to training.", places
            )
        )
    if unseen:
        named = ", ".join(f"'{label[:30]}'" for label in unseen[:5])
        sentence = f"{plural(len(unseen), 'class of training has', 'classes of training have')} no dev row: {named}."
        found.append(Finding("unseen-classes", "note", sentence, len(unseen)))
    return found
