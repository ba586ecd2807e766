"""SQuAD metrics: exact match and F1 (Rajpurkar et al. 2016, section 6.1; 2018, section 5).

Answers are lowercased and stripped of punctuation, articles and extra whitespace. Exact match is 1 if the rest is
equal; F1 compares the words. The best score over several gold answers counts. An unanswerable question is correct if no
answer is predicted. The rules of version 2.0 apply to all files; version 1.1 differs only for gold answers of nothing
but articles and punctuation, which 2.0 ignores.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...text.readers.squad import Question
from ..evaluation.rare import row_key
from .windows import AnswerCandidates

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Lowercases, removes ASCII punctuation and the articles a, an, the, and collapses whitespace."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of an answer ("" for none), each the maximum over the gold answers.

    golds: the gold answers; if it is empty, or they contain only articles and punctuation, the question is
    unanswerable.
    """
    references = [text for text in map(normalize, golds) if text] or [""]
    predicted = normalize(answer)
    return float(predicted in references), max(_f1(predicted.split(), gold.split()) for gold in references)


def _f1(predicted: list[str], reference: list[str]) -> float:
    if not predicted or not reference:
        return float(predicted == reference)
    num_same = (Counter(predicted) & Counter(reference)).total()
    return 2 * num_same / (len(predicted) + len(reference))


@dataclass(frozen=True)
class Scored:
    """Scores of answering and of predicting no answer for each question, to evaluate any threshold.

    keys: identify question and context; has_answer: bool [rows]; answered, unanswered: float64 [rows, 2], exact match
    and F1 of the best span, and of no answer; no_answer_margin: float64 [rows], see `AnswerCandidates`.
    """

    keys: tuple[str, ...]
    has_answer: np.ndarray
    answered: np.ndarray
    unanswered: np.ndarray
    no_answer_margin: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> Scored:
        """Selects rows. rows: int64 [n] or bool [rows]."""
        chosen = np.arange(len(self))[rows]
        keys = tuple(self.keys[row] for row in chosen)
        fields = (self.has_answer, self.answered, self.unanswered, self.no_answer_margin)
        return Scored(keys, *(values[chosen] for values in fields))

    def outcome(self, threshold: float | np.ndarray) -> np.ndarray:
        """Exact match and F1 of each row, with no answer predicted above `threshold`: float64 [rows, 2].

        threshold: one number, or one for each row.
        """
        return np.where((self.no_answer_margin > threshold)[:, None], self.unanswered, self.answered)


def score_all(questions: Sequence[Question], found: Sequence[AnswerCandidates]) -> Scored:
    """Scores the best span of each question against its gold answers."""
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


def summarize(outcome: np.ndarray, has_answer: np.ndarray) -> dict[str, float]:
    """Means over all rows, over answerable and over unanswerable questions, as fractions.

    outcome: float64 [rows, 2]; has_answer: bool [rows]. Names: exact_match, f1, has_answer_exact, has_answer_f1,
    no_answer_exact, no_answer_f1; a group without rows is omitted.
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
