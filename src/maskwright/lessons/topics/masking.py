"""The tokens that BERT predicts, and their replacements in the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ...objectives.audit import AuditedSequence
    from ..recorder import LessonRecorder

PART = "Pre-training"
MILK = "the man went to the store to buy a gallon of milk"
OTHERS = ("apple", "river", "green", "seven")
MASKED, RANDOM, KEPT = 8, 5632, 164  # seeds whose draws are the slide's three variants


def _shares(record: LessonRecorder) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...objectives.masking import Masker
    from ...report import Bar, Bars

    length, count, vocab = 128, 5_400, 30_000
    masker = Masker(4, frozenset(range(5)), vocab)
    ids = generator(0, "lesson text").integers(5, vocab, (count, length))
    ids[:, 0], ids[:, -1] = 2, 3  # [CLS], [SEP]
    flat = ids.reshape(-1)
    masked = masker(flat, np.full(count, length), generator(0, "lesson masks"))
    selected = len(masked.positions)
    shown = masked.input_ids[masked.positions]
    is_mask, is_same = shown == 4, shown == masked.labels
    fates = [float(is_mask.mean()), float((~is_mask & ~is_same).mean()), float(is_same.mean())]
    share = selected / (count * (length - 2))
    record.near(f"fraction selected of {count * (length - 2):,} tokens", 0.15, share, 0.003)
    record.near(f"[MASK], random, unchanged of {selected:,}", [0.8, 0.1, 0.1], fates, 0.01)
    special = int((flat[masked.positions] < 5).sum())
    record.equal("special tokens selected", 0, special)
    fewest = int(np.bincount(masked.positions // length, minlength=count).min())
    record.holds("labels in every sequence", "(at least one)", f"{fewest} or more", fewest >= 1)
    untouched = np.delete(masked.input_ids, masked.positions)
    record.equal(
        "tokens that are not selected are unchanged", True, bool((untouched == np.delete(flat, masked.positions)).all())
    )
    names = ("[MASK]", "random token", "unchanged")
    record.show(
        Bars(
            [Bar(name, one, f"{one:.1%}") for name, one in zip(names, fates, strict=True)],
            title="Replacement of a selected token",
        )
    )
    short = masker(np.array([2, 77, 78, 3] * 20_000), np.full(20_000, 4), generator(1, "lesson masks"))
    rate = len(short.positions) / 40_000
    record.answer(
        f"Every sequence has at least one label: in texts of two words, {rate:.0%} of the words are selected. In "
        "longer texts the number is rounded up or down at random, so that the fraction stays 15%."
    )


def _milk(record: LessonRecorder) -> None:
    from ...report import Kind, Token, Tokens
    from ..parts.mask_demo import mask_words

    words = MILK.split()
    variants = {
        name: mask_words(words, OTHERS, seed)
        for name, seed in (("80 %: [MASK]", MASKED), ("10 %: a random word", RANDOM), ("10 %: unchanged", KEPT))
    }
    masked, random, kept = variants.values()
    record.equal("masked", "the man went to the [MASK] to buy a [MASK] of milk", _text(masked))
    record.equal("the masked words", "store, gallon", ", ".join(one.original for one in masked.tokens if one.fate))
    record.equal("random: store becomes", "apple", _fate(random, "store", "random"))
    record.equal("unchanged: store stays", "store", _fate(kept, "store", "kept"))
    rows = []
    for name, sequence in variants.items():
        kinds: list[Kind] = [one.fate if one.fate in ("masked", "random", "kept") else "" for one in sequence.tokens]
        rows.append(
            (
                name,
                [
                    Token(one.shown, kind, one.original if one.fate else "")
                    for one, kind in zip(sequence.tokens, kinds, strict=True)
                ],
            )
        )
    record.show(Tokens(rows, note="Below a word: the token to predict."))
    again = mask_words(words, OTHERS, MASKED)
    record.equal("the same seed again", "the same masks", "the same masks" if again == masked else "others")
    fates = [one.fate for seed in range(400) for one in mask_words(words, OTHERS, seed).tokens if one.fate]
    record.answer(
        f"Because [MASK] does not occur at inference. Of {len(fates):,} words selected with 400 seeds, "
        f"{fates.count('masked') / len(fates):.0%} became [MASK]. Because of the others, BERT cannot rely on the input "
        "token, so every token's vector must encode its context."
    )


def _text(sequence: AuditedSequence) -> str:
    return " ".join(one.shown for one in sequence.tokens)


def _fate(sequence: AuditedSequence, word: str, fate: str) -> str:
    """Return the replacement of a word with this fate, or what happened instead."""
    found = [one for one in sequence.tokens if one.original == word]
    return next((one.shown for one in found if one.fate == fate), f"{[one.fate for one in found]}")


LESSONS = (
    Lesson(
        "masking-shares",
        PART,
        APPLICATIONS,
        "BERT: Word Masking, 80 % / 10 % / 10 %",
        "The 15% of selected tokens",
        "BERT predicts 15% of the tokens. Of these, 80% are replaced by [MASK], 10% by a random token, and 10% are "
        "unchanged. Counted over half a million tokens.",
        ("objectives.masking:Masker.__call__", "objectives.masking:Masker.select"),
        "What is 15% of a text with two words?",
        _shares,
    ),
    Lesson(
        "milk-sentence",
        PART,
        APPLICATIONS,
        "Word Masking: examples",
        "Masking of the slides' sentence",
        "The slides' sentence, masked as in training. The seed determines the masks, so each of the three variants "
        "can be reproduced.",
        ("lessons.parts.mask_demo:mask_words",),
        "Why is not every selected word replaced by [MASK]?",
        _milk,
    ),
)
