"""Differences between two explained answers: of two texts, or of two models or checkpoints for a text."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from .reasons import Reasons

SHOWN = 12  # answers


def differences(first: Reasons, second: Reasons) -> dict[str, Any]:
    """Compare two explained answers.

    Returns {"answers": [{"answer", "first", "second"}], "words": [{"word", "first", "second"}]}: the answers with the
    largest difference of their scores first, None for one that a model does not know; the words in their order, aligned
    by their letters, with their scores of occlusion for the explained answer of their side, None without a partner.
    """
    names = dict.fromkeys(name for one in (first, second) for name, _ in one.answers)
    scores = [(name, first.score_of(name), second.score_of(name)) for name in names]
    scores.sort(key=lambda row: -abs((row[2] or 0.0) - (row[1] or 0.0)))
    rows = [{"answer": name, "first": before, "second": after} for name, before, after in scores[:SHOWN]]
    return {"answers": rows, "words": _aligned(first, second)}


def _aligned(first: Reasons, second: Reasons) -> list[dict[str, Any]]:
    own, other = ([(one.text, one.word.lower()) for one in reasons.words] for reasons in (first, second))
    pairs: list[tuple[int | None, int | None]] = []
    for name, start, end, begin, stop in SequenceMatcher(None, own, other, autojunk=False).get_opcodes():
        if name == "equal" or (name == "replace" and end - start == stop - begin):
            pairs += zip(range(start, end), range(begin, stop), strict=True)
        else:
            pairs += [*((place, None) for place in range(start, end)), *((None, place) for place in range(begin, stop))]
    return [_row(first, second, *pair) for pair in pairs]


def _row(first: Reasons, second: Reasons, here: int | None, there: int | None) -> dict[str, Any]:
    sides = [(one, place) for one, place in ((first, here), (second, there)) if place is not None]
    words = dict.fromkeys(one.words[place].word for one, place in sides)

    def score(one: Reasons, place: int | None) -> float | None:
        return None if place is None else float(one.attributions["occlusion"][place])

    return {"word": " / ".join(words), "first": score(first, here), "second": score(second, there)}
