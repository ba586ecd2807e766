"""Names in a sentence: tags, entities, and how they are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Tasks"
WORDS = ["Albert", "is", "going", "to", "United", "States", "of", "America", "."]
GOLD = ["B-PER", "O", "O", "O", "B-LOC", "I-LOC", "I-LOC", "I-LOC", "O"]


def _tags(sheet: Sheet) -> None:
    from ...tasks.schemes import agreement, repair, spans, spell
    from ...train.report import Kind, Token, Tokens

    found = [(one.type, " ".join(WORDS[one.start : one.end])) for one in spans(GOLD)]
    sheet.equal("entities", [("PER", "Albert"), ("LOC", "United States of America")], found)
    sheet.equal("tags of these entities", " ".join(GOLD), " ".join(spell(spans(GOLD), len(GOLD), "BIO")))
    missed = [*GOLD[:7], "O", "O"]
    right = sum(a == b for a, b in zip(GOLD, missed, strict=True))
    sheet.equal("tags that are right without 'America'", 8, right)
    score = agreement([GOLD], [missed], spans)[""]
    sheet.near("entity F1 of the same answer", 0.5, score.f1, 1e-12, digits=2)
    sheet.equal("O I-PER repaired", "O B-PER", " ".join(repair(["O", "I-PER"], "BIO")[0]))
    rows = []
    for name, tags in (("right", GOLD), ("without America", missed)):
        kinds: list[Kind] = [
            "first" if tag.endswith("PER") else "second" if tag.endswith("LOC") else "" for tag in tags
        ]
        rows.append((name, [Token(w, k, t) for w, k, t in zip(WORDS, kinds, tags, strict=True)]))
    sheet.show(Tokens(rows))
    sheet.answer(
        f"{right} of {len(GOLD)} tags are right, {right / len(GOLD):.0%}, but United States of is not the place that "
        f"was meant: 1 of 2 entities is found and 1 of 2 found ones is right, so F1 is {score.f1:.2f}."
    )


LESSONS = (
    Lesson(
        "names",
        PART,
        FRONTIERS,
        "Usage III: tagging",
        "B, I and O spell entities",
        "Each word gets a tag: B begins a name, I goes on with it, O is outside. What counts is the whole name.",
        ("tasks.schemes:spans", "tasks.schemes:agreement"),
        "One wrong tag in nine: how good is the answer?",
        _tags,
    ),
)
