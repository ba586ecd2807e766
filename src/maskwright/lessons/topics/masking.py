"""The tokens that BERT predicts, and their replacements in the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.util import plural
from ..inputs import integer, number, text, words_of
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ...objectives.audit import AuditedSequence
    from ..recorder import LessonRecorder

PART = "Pre-training"
MILK = "the man went to the store to buy a gallon of milk"
OTHERS = ("apple", "river", "green", "seven")
OWN_TEXTS = 1_000  # with your own values: an answer at once
MASKED, RANDOM, KEPT = 8, 5632, 164  # seeds whose draws are the slide's three variants


def _shares(record: LessonRecorder, rate: float, words: int) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...objectives.masked import Masker
    from ...report import Bar, Bars

    length, vocab = 128, 30_000
    count = OWN_TEXTS if record.is_own else 5_400
    masker = Masker(4, frozenset(range(5)), vocab, rate)
    ids = generator(0, "lesson text").integers(5, vocab, (count, length))
    ids[:, 0], ids[:, -1] = 2, 3  # [CLS], [SEP]
    flat = ids.reshape(-1)
    masked = masker(flat, np.full(count, length), generator(0, "lesson masks"))
    selected = len(masked.positions)
    shown = masked.input_ids[masked.positions]
    is_mask, is_same = shown == 4, shown == masked.labels
    fates = [float(is_mask.mean()), float((~is_mask & ~is_same).mean()), float(is_same.mean())]
    share = selected / (count * (length - 2))
    record.near(f"fraction selected of {count * (length - 2):,} tokens", rate, share, 0.003, law=True)
    within = 0.01 if not record.is_own else 0.01 + 2 / selected**0.5  # four standard errors of 0.8
    record.near(f"[MASK], random, unchanged of {selected:,}", [0.8, 0.1, 0.1], fates, within, law=True)
    special = int((flat[masked.positions] < 5).sum())
    record.equal("special tokens selected", 0, special, law=True)
    fewest = int(np.bincount(masked.positions // length, minlength=count).min())
    record.holds("labels in every sequence", "(at least one)", f"{fewest} or more", fewest >= 1, law=True)
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
    texts = 20_000 // words
    line = [2, *range(77, 77 + words), 3]
    short = masker(np.array(line * texts), np.full(texts, len(line)), generator(1, "lesson masks"))
    record.answer(
        f"Every sequence has at least one label: in texts of {plural(words, 'word', 'words')}, "
        f"{len(short.positions) / (texts * words):.0%} of the words are selected. In longer texts the number is "
        f"rounded up or down at random, so that the fraction stays {rate:.0%}."
    )


def _milk(record: LessonRecorder, text: str, rate: float, seed: int) -> None:
    from ...report import Kind, Token, Tokens
    from ..parts.explainers import mask_words

    words = words_of(text)
    seeds = {"80 %: [MASK]": MASKED, "10 %: a random word": RANDOM, "10 %: unchanged": KEPT}
    if record.is_own:
        seeds = {f"seed {own}": own for own in range(seed, seed + 3)}
    variants = {name: mask_words(words, OTHERS, own, rate) for name, own in seeds.items()}
    masked, random, kept = variants.values()
    for name, sequence in variants.items():
        count = sum(bool(one.fate) for one in sequence.tokens)
        found = f"{count} of {len(sequence.tokens)}"
        record.holds(f"words to predict, {name}", "(at least one)", found, count > 0, law=True)
    record.equal("masked", "the man went to the [MASK] to buy a [MASK] of milk", _text(masked))
    record.equal("the masked words", "store, gallon", ", ".join(one.original for one in masked.tokens if one.fate))
    if not record.is_own:
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
    again = mask_words(words, OTHERS, next(iter(seeds.values())), rate)
    record.equal("the same seed again", "the same masks", "the same masks" if again == masked else "others", law=True)
    tries = 40 if record.is_own else 400
    fates = [one.fate for own in range(tries) for one in mask_words(words, OTHERS, own, rate).tokens if one.fate]
    record.answer(
        f"Because [MASK] does not occur at inference. Of {len(fates):,} words selected with {tries} seeds, "
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
        ("objectives.masked:Masker.__call__", "objectives.masked:Masker.select"),
        "What is 15% of a text with two words?",
        _shares,
        (
            number("rate", "Masking probability", 0.15, 0.02, 0.9, 0.01),
            integer("words", "Words of a short text", 2, 1, 40),
        ),
    ),
    Lesson(
        "milk-sentence",
        PART,
        APPLICATIONS,
        "Word Masking: examples",
        "Masking of the slides' sentence",
        "The slides' sentence, masked as in training. The seed determines the masks, so each of the three variants "
        "can be reproduced.",
        ("lessons.parts.explainers:mask_words",),
        "Why is not every selected word replaced by [MASK]?",
        _milk,
        (
            text("text", "Sentence", MILK, 2),
            number("rate", "Masking probability", 0.15, 0.02, 0.9, 0.01),
            integer("seed", "Random seed; the next two are shown, too", MASKED, 0, 9999),
        ),
    ),
)
