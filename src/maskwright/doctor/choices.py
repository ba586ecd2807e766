"""Multiple-choice checks: position bias, length bias and duplicate choices."""

from __future__ import annotations

from collections import Counter

from ..text.readers.choices import ChoiceRow
from .findings import Finding, FindingCounter
from .rows import Item

_SIGNIFICANCE = 0.001  # p-value below which a bias is reported


class ChoiceStatistics:
    """Statistics of the choices of one file."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows, self.num_choices = file, 0, 0
        self.positions: Counter[int] = Counter()
        self.same = FindingCounter()
        self.longest = 0

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        row: ChoiceRow = item.row
        self.num_rows, self.num_choices = self.num_rows + 1, len(row.choices)
        plain = [" ".join(choice.casefold().split()) for choice in row.choices]
        if len(set(plain)) < len(plain):
            self.same.add(self.file, row.line, f"'{next(text for text in plain if plain.count(text) > 1)[:40]}' twice")
        if row.label is not None:
            self.positions[row.label] += 1
            lengths = [len(choice) for choice in row.choices]
            self.longest += lengths[row.label] == max(lengths) and lengths.count(max(lengths)) == 1

    def shown(self) -> Counter[str]:
        """Count the correct answers by position."""
        return Counter({f"choice {index}": self.positions[index] for index in range(self.num_choices)})

    def findings(self) -> list[Finding]:
        """Return the findings."""
        from scipy.stats import binomtest, chisquare

        found = self.same.finding(
            "same-choices",
            "problem",
            "{count:row has|rows have} a duplicate choice, which is both correct and incorrect.",
        )
        counts = [self.positions[index] for index in range(self.num_choices)]
        if sum(counts) and chisquare(counts).pvalue < _SIGNIFICANCE:
            most = max(range(len(counts)), key=counts.__getitem__)
            share = counts[most] / sum(counts)
            even = 1 / len(counts)
            sentence = f"The correct answer is choice {most} in {share:.0%} of the rows; chance is {even:.0%}."
            found.append(
                Finding("position-bias", "warning", sentence, counts[most], "Shuffle the choices of each row.")
            )
        chance = 1 / max(self.num_choices, 1)
        if (
            self.num_rows
            and binomtest(self.longest, self.num_rows, chance, alternative="greater").pvalue < _SIGNIFICANCE
        ):
            share = self.longest / self.num_rows
            sentence = f"The longest choice is correct in {share:.0%} of the rows; chance is {chance:.0%}."
            found.append(Finding("length-bias", "note", sentence, self.longest))
        return found
