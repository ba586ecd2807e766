"""BLEU: the similarity of a translation to its reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Generation"
WANTED = ("the cat sat on the mat and slept", "it was not tired at all")
WRITTEN = ("the cat sat on a mat", "it was not tired")
LENGTHS = ("one word", "two consecutive words", "three", "four")


def _bleu(record: LessonRecorder) -> None:
    from ...core.errors import MissingExtraError
    from ...report import Bar, Bars, Table
    from ...tasks.translation.scores import corpus_scores
    from ..parts.bleu_explainer import explain_bleu

    found = explain_bleu(WRITTEN, WANTED)
    record.equal("n-grams of 1, 2, 3, 4 words in the translation", "10, 8, 6, 4", ", ".join(map(str, found.rows)))
    record.equal("matches in the reference", "9, 6, 4, 2", ", ".join(map(str, found.matches)))
    record.near("precisions", [9 / 10, 6 / 8, 4 / 6, 2 / 4], found.precisions)
    record.near("brevity penalty, 10 words for 14: exp(1 − 14/10)", math.exp(-0.4), found.penalty)
    by_hand = 100 * math.exp(-0.4) * (9 / 10 * 6 / 8 * 4 / 6 * 2 / 4) ** 0.25
    record.near("BLEU: penalty times the fourth root of the product of the precisions", by_hand, found.score, digits=2)
    compared = True
    try:
        record.near("BLEU of sacrebleu", by_hand, corpus_scores(WRITTEN, WANTED)[0]["bleu"], 0.01, digits=2)
    except MissingExtraError:
        compared = False
    again = explain_bleu(["the the the the the the the"], ["the cat is on the mat"])
    record.equal("'the' seven times; the reference has two", "2 of 7", f"{again.matches[0]} of {again.rows[0]}")
    record.show(
        Bars(
            [
                Bar(name, share, f"{hits} of {rows}")
                for name, share, hits, rows in zip(LENGTHS, found.precisions, found.matches, found.rows, strict=True)
            ],
            title="n-gram precision",
        )
    )
    lines = [explain_bleu([text], [reference]).score for text, reference in zip(WRITTEN, WANTED, strict=True)]
    rows = [(a, b, f"{score:.2f}") for a, b, score in zip(WRITTEN, WANTED, lines, strict=True)]
    record.show(
        Table(
            ["written", "wanted", "BLEU of the line"],
            [*rows, ("both", "", f"{found.score:.2f}")],
            right=["BLEU of the line"],
        )
    )
    record.answer(
        f"No: the lines score {lines[0]:.2f} and {lines[1]:.2f}, {sum(lines) / 2:.2f} on average, and both together "
        f"{found.score:.2f}. Matches, n-grams and words are summed first, so a long line counts more, and a line "
        "without a matching 4-gram does not reduce the score to 0."
        + ("" if compared else " (Not compared with sacrebleu: it is not installed.)")
    )


LESSONS = (
    Lesson(
        "bleu-by-hand",
        PART,
        SESSION,
        "Performance: BLEU",
        "BLEU by hand",
        "BLEU is the precision of n-grams of one to four words, with a penalty for short translations. Two lines are "
        "counted by hand and compared with sacrebleu, which computes published scores.",
        ("lessons.parts.bleu_explainer:explain_bleu", "tasks.translation.scores:corpus_scores"),
        "Is the BLEU of a file the mean of its lines?",
        _bleu,
    ),
)
