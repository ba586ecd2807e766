"""Scores of answers, by the definition of SQuAD (Rajpurkar et al. 2016, section 6.1; 2018, section 5).

Both sides lose capitals, punctuation, articles and superfluous spaces. Exact match is 1 where the rest is the same;
F1 compares the words of both. Of several right answers the one that gives most counts. A question without an answer is
right when nothing is answered. Version 2.0's rules hold for every file; version 1.1's differ only where a right answer
is nothing but articles and punctuation, which 2.0 does not count.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..text.squad import Question
from .qa_spans import Found
from .thresholds import row_key

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without the articles a, an, the, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of an answer ("" for none), each the most that any gold answer gives.

    golds: the right answers; none of them, or none but articles and punctuation, means that there is none.
    """
    wanted = [text for text in map(normalise, golds) if text] or [""]
    given = normalise(answer)
    return float(given in wanted), max(_f1(given.split(), gold.split()) for gold in wanted)


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    num_same = (Counter(given) & Counter(wanted)).total()
    return 2 * num_same / (len(given) + len(wanted))


@dataclass(frozen=True)
class Scored:
    """What answering and not answering gives for each question: all that a threshold decides.

    keys: what tells a question on a context from every other; has_answer: bool [rows]; answered, refused: float64
    [rows, 2], exact match and F1 of the best span, and of no answer; no_answer_margin: float64 [rows], as of `Found`.
    """

    keys: tuple[str, ...]
    has_answer: np.ndarray
    answered: np.ndarray
    refused: np.ndarray
    no_answer_margin: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> Scored:
        """Some of the rows. rows: int64 [n] or bool [rows]."""
        chosen = np.arange(len(self))[rows]
        keys = tuple(self.keys[row] for row in chosen)
        fields = (self.has_answer, self.answered, self.refused, self.no_answer_margin)
        return Scored(keys, *(values[chosen] for values in fields))

    def outcome(self, threshold: float | np.ndarray) -> np.ndarray:
        """Exact match and F1 of each row when it is refused above `threshold`: float64 [rows, 2].

        threshold: one number, or one for each row.
        """
        return np.where((self.no_answer_margin > threshold)[:, None], self.refused, self.answered)


def score_all(questions: Sequence[Question], found: Sequence[Found]) -> Scored:
    """Score the best span of every question against its right answers, which must be known."""
    golds = [[gold.text for gold in question.answers or ()] for question in questions]
    best = [answer.spans[0].text if answer.spans else "" for answer in found]
    pairs = [score_answer(text, wanted) for text, wanted in zip(best, golds, strict=True)]
    return Scored(
        tuple(row_key(question.question, question.context) for question in questions),
        np.array([bool(wanted) for wanted in golds], dtype=bool),
        np.array(pairs, dtype=np.float64).reshape(-1, 2),
        np.array([score_answer("", wanted) for wanted in golds], dtype=np.float64).reshape(-1, 2),
        np.array([answer.no_answer_margin for answer in found], dtype=np.float64),
    )


def summarise(outcome: np.ndarray, has_answer: np.ndarray) -> dict[str, float]:
    """Means over all rows, over those that have an answer and those that have none, as fractions.

    outcome: float64 [rows, 2]; has_answer: bool [rows]. Names: exact_match, f1, has_answer_exact, has_answer_f1,
    no_answer_exact, no_answer_f1; a part without rows is not there.
    """
    metrics: dict[str, float] = {}
    every = np.ones(len(outcome), dtype=bool)
    for exact, f1, part in (
        ("exact_match", "f1", every),
        ("has_answer_exact", "has_answer_f1", has_answer),
        ("no_answer_exact", "no_answer_f1", ~has_answer),
    ):
        if part.any():
            metrics[exact], metrics[f1] = outcome[part].mean(axis=0).tolist()
    return metrics
