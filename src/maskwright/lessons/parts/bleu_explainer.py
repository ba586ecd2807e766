"""The parts of BLEU, for computing it by hand (Papineni et al. 2002, section 2.3).

Reported scores come from sacrebleu (`translation_scores.py`), which also tokenizes and smooths. Here words are
separated by whitespace; a test compares both numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.errors import InputError

LONGEST = 4  # highest n of the n-grams


@dataclass(frozen=True)
class ExplainedBleu:
    """The parts of a BLEU score. matches, rows: number of matching and of generated n-grams, n from 1 to 4, over all
    texts; written, wanted: number of generated and reference words; penalty: brevity penalty; score: 0 to 100.
    """

    matches: tuple[int, ...]
    rows: tuple[int, ...]
    written: int
    wanted: int
    penalty: float
    score: float

    @property
    def precisions(self) -> tuple[float, ...]:
        """Fraction of matching n-grams, by n."""
        return tuple(hits / rows if rows else 0.0 for hits, rows in zip(self.matches, self.rows, strict=True))


def explain_bleu(written: Sequence[str], wanted: Sequence[str]) -> ExplainedBleu:
    """Compute BLEU with one reference per text, without smoothing: 0 if no n-gram of some length matches.

    Counts are summed over all texts before division. Raises InputError for no texts, or unequal numbers of both.
    """
    if not written or len(written) != len(wanted):
        raise InputError(f"BLEU needs a reference for each text: {len(written)} texts, {len(wanted)} references.")
    pairs = [(text.split(), reference.split()) for text, reference in zip(written, wanted, strict=True)]
    matches = tuple(sum((_rows(a, n) & _rows(b, n)).total() for a, b in pairs) for n in range(1, LONGEST + 1))
    rows = tuple(sum(_rows(a, n).total() for a, _ in pairs) for n in range(1, LONGEST + 1))
    length, due = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    penalty = min(1.0, math.exp(1 - due / length)) if length else 0.0
    mean = math.exp(sum(math.log(a / b) for a, b in zip(matches, rows, strict=True)) / LONGEST) if all(matches) else 0.0
    return ExplainedBleu(matches, rows, length, due, penalty, 100 * penalty * mean)


def _rows(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    """Count each n-gram of this length."""
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))
