"""What BLEU is made of, to be read and followed by hand (Papineni et al. 2002, section 2.3).

Scores that are reported come from sacrebleu (`translation_scores.py`), which also cuts texts into words, and knows what
to do where nothing matches. Here words stand between whitespace, and a test holds both numbers together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.errors import InputError

LONGEST = 4  # words that are compared in a row


@dataclass(frozen=True)
class ExplainedBleu:
    """matches, rows: of 1 to 4 words in a row, how many are in the reference and how many were written, over all
    texts; written, wanted: words; penalty: for too short a text, 1 without; score: 0 to 100.
    """

    matches: tuple[int, ...]
    rows: tuple[int, ...]
    written: int
    wanted: int
    penalty: float
    score: float

    @property
    def precisions(self) -> tuple[float, ...]:
        """The share of rows that are right, by their length."""
        return tuple(hits / rows if rows else 0.0 for hits, rows in zip(self.matches, self.rows, strict=True))


def explain_bleu(written: Sequence[str], wanted: Sequence[str]) -> ExplainedBleu:
    """BLEU of texts beside one reference each, without smoothing: 0 where some length of row never matches.

    Counts are summed over all texts before anything is divided. Raises InputError for none, or not as many of both.
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
    """How often each row of so many words stands there."""
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))
