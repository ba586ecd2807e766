"""Questions, tokenizers and windows for the question answering tests."""

from __future__ import annotations

from functools import cache

from maskwright.text.squad import Gold, Question
from maskwright.text.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS

WORDS = [
    "the",
    "old",
    "man",
    "told",
    "an",
    "older",
    "story",
    "walked",
    "lowest",
    "road",
    "crème",
    "東京",
    "Ωμέγα",
    "it's",
    "3.5",
]


@cache
def tokenizer(kind: str = "wordpiece") -> Tokenizer:
    return Tokenizer.train_from_iterator(CORPUS, kind, 300)


def ask(
    context: str, *answers: str | tuple[int, int], question: str = "Who told it?", name: str = "q", known: bool = True
) -> Question:
    """A question; answers as texts (their first place counts) or as (start, end)."""
    golds = []
    for answer in answers:
        start, end = answer if isinstance(answer, tuple) else (context.index(answer), 0)
        golds.append(Gold(context[start:end] if isinstance(answer, tuple) else answer, start))
    return Question(name, question, context, tuple(golds) if known else None, 1, "the tests")
