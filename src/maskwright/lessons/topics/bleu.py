"""BLEU: the similarity of a translation to its reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..inputs import text
from ..lesson import SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Generation"
WANTED = ("the cat sat on the mat and slept", "it was not tired at all")
WRITTEN = ("the cat sat on a mat", "it was not tired")
LENGTHS = ("one word", "two consecutive words", "three", "four")


def _bleu(record: LessonRecorder, written: str, wanted: str) -> None:
    from ...core.errors import MissingExtraError
    from ...report import Bar, Bars, Table
    from ...tasks.translation import corpus_scores
    from ..parts.explainers import explain_bleu

    lines, references = ([" ".join(one.split()) for one in own.split("|")] for own in (written, wanted))
    if len(lines) != len(references):
        raise InputError(f"written: {len(lines)} lines, wanted: {len(references)}; pass a reference for each line.")
    found = explain_bleu(lines, references)
    record.equal("n-grams of 1, 2, 3, 4 words in the translation", "10, 8, 6, 4", ", ".join(map(str, found.rows)))
    record.equal("matches in the reference", "9, 6, 4, 2", ", ".join(map(str, found.matches)))
    record.near("precisions", [9 / 10, 6 / 8, 4 / 6, 2 / 4], found.precisions)
    long, due = (sum(len(one.split()) for one in own) for own in (lines, references))
    penalty = math.exp(min(0.0, 1 - due / long))
    record.near(f"brevity penalty, {long} words for {due}", penalty, found.penalty, law=True)
    shares = [hits / rows if rows else 0.0 for hits, rows in zip(found.matches, found.rows, strict=True)]
    by_hand = 100 * penalty * math.prod(shares) ** 0.25
    what = "BLEU: penalty times the fourth root of the product of the precisions"
    record.near(what, by_hand, found.score, digits=2, law=True)
    compared = True
    try:
        if max(len(one.split()) for one in references) >= len(LENGTHS):  # else sacrebleu counts shorter n-grams only
            record.near("BLEU of sacrebleu", by_hand, corpus_scores(lines, references)[0]["bleu"], 0.01, digits=2)
    except MissingExtraError:
        compared = False
    again = explain_bleu(["the the the the the the the"], ["the cat is on the mat"])
    record.equal(
        "'the' seven times; the reference has two", "2 of 7", f"{again.matches[0]} of {again.rows[0]}", law=True
    )
    record.show(
        Bars(
            [
                Bar(name, share, f"{hits} of {rows}")
                for name, share, hits, rows in zip(LENGTHS, found.precisions, found.matches, found.rows, strict=True)
            ],
            title="n-gram precision",
        )
    )
    scores = [explain_bleu([line], [reference]).score for line, reference in zip(lines, references, strict=True)]
    rows = [(a, b, f"{score:.2f}") for a, b, score in zip(lines, references, scores, strict=True)]
    record.show(
        Table(
            ["written", "wanted", "BLEU of the line"],
            [*rows, ("all", "", f"{found.score:.2f}")],
            right=["BLEU of the line"],
        )
    )
    record.answer(
        f"No: the lines score {', '.join(f'{one:.2f}' for one in scores)}, {sum(scores) / len(scores):.2f} on average, "
        f"and together {found.score:.2f}. Matches, n-grams and words are summed first, so a long line counts more, and "
        "a line without a matching 4-gram does not reduce the score to 0."
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
        ("lessons.parts.explainers:explain_bleu", "tasks.translation:corpus_scores"),
        "Is the BLEU of a file the mean of its lines?",
        _bleu,
        (
            text("written", "Translation, lines separated by |", " | ".join(WRITTEN)),
            text("wanted", "Reference, lines separated by |", " | ".join(WANTED)),
        ),
    ),
)
