"""Multiple choice: whether the place or the length of a choice gives the answer away, and choices that are the same."""

from __future__ import annotations

from collections import Counter

from ..text.choices import ChoiceRow
from .findings import Finding, Tally
from .rows import Item

_SURE = 0.001  # p below which the places of the right answers are not even


class ChoiceFacts:
    """The choices of one file."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows, self.num_choices = file, 0, 0
        self.positions: Counter[int] = Counter()
        self.same = Tally()
        self.longest = 0

    def see(self, item: Item) -> None:
        """Take a row in."""
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
        """Right answers by their place."""
        return Counter({f"choice {place}": self.positions[place] for place in range(self.num_choices)})

    def findings(self) -> list[Finding]:
        """In words."""
        from scipy.stats import binomtest, chisquare

        found = self.same.finding(
            "same-choices", "problem", "{count:row has|rows have} a choice twice, so one is right and wrong."
        )
        counts = [self.positions[place] for place in range(self.num_choices)]
        if sum(counts) and chisquare(counts).pvalue < _SURE:
            most = max(range(len(counts)), key=counts.__getitem__)
            share = counts[most] / sum(counts)
            even = 1 / len(counts)
            sentence = f"The right answer is choice {most} in {share:.0%} of the rows; chance would give {even:.0%}."
            found.append(
                Finding("position-bias", "warning", sentence, counts[most], "Shuffle the choices of each row.")
            )
        chance = 1 / max(self.num_choices, 1)
        if self.num_rows and binomtest(self.longest, self.num_rows, chance, alternative="greater").pvalue < _SURE:
            share = self.longest / self.num_rows
            sentence = f"The longest choice is right in {share:.0%} of the rows; chance would give {chance:.0%}."
            found.append(Finding("length-bias", "note", sentence, self.longest))
        return found
