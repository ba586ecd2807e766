"""Masked language modeling: the choice of positions, their share, the loss, and a learned fact."""

from __future__ import annotations

import math

import numpy as np

from ...core.errors import InputError
from ...core.randomness import generator
from ...core.util import plural
from ...data.batch import Batch
from ...inference.fill_mask import MaskFiller
from ...models.model import Model
from ...objectives.audit import AuditedSequence
from ...objectives.masked import Masked, Masker
from ...report import Kind, Table, Token, Tokens
from ...report.charts import Chart, Series
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.pretraining.job import pretrain_small
from ..inputs import Matrix, words_of
from ..parts import explain_loss, mask_words
from ..recorder import LessonRecorder
from ..small import small_network, word_tokenizer

OTHERS = ("apple", "river", "green", "seven")
OWN_TEXTS = 1_000  # with your own values: an answer at once
MASKED, RANDOM, KEPT = 8, 5632, 164  # seeds whose draws are the slide's three variants


def lesson_masking_shares(record: LessonRecorder, rate: float, words: int) -> None:
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
    record.bars("Replacement of a selected token", zip(names, fates, strict=True), ".1%")
    texts = 20_000 // words
    line = [2, *range(77, 77 + words), 3]
    short = masker(np.array(line * texts), np.full(texts, len(line)), generator(1, "lesson masks"))
    record.answer(
        f"Every sequence has at least one label: in texts of {plural(words, 'word', 'words')}, "
        f"{len(short.positions) / (texts * words):.0%} of the words are selected. In longer texts the number is "
        f"rounded up or down at random, so that the fraction stays {rate:.0%}."
    )


def lesson_milk_sentence(record: LessonRecorder, text: str, rate: float, seed: int) -> None:
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
    shown = " ".join(one.shown for one in masked.tokens)
    record.equal("masked", "the man went to the [MASK] to buy a [MASK] of milk", shown)
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


def _fate(sequence: AuditedSequence, word: str, fate: str) -> str:
    """Return the replacement of a word with this fate, or what happened instead."""
    found = [one for one in sequence.tokens if one.original == word]
    return next((one.shown for one in found if one.fate == fate), f"{[one.fate for one in found]}")


RATES = (0.05, 0.15, 0.4, 0.8)
VOCAB = 45  # ids 0 to 4 are special, 4 is [MASK]
MASK_SHARE = 0.8  # of the selected words are masked


def lesson_mask_rate(record: LessonRecorder) -> None:
    texts = _walks(60)
    lengths = np.full(len(texts), texts.shape[1])
    ids, unseen = texts.reshape(-1), _walks(20, seed=1).reshape(-1)
    answers, usable, right = [], [], []
    for rate in RATES:
        masked = Masker(4, frozenset(range(5)), VOCAB, rate)(ids, lengths, generator(0, "rates"))
        answers.append(len(masked.positions) / len(ids))
        known = _told(masked, len(ids))
        usable.append(len(known) / len(ids))
        right.append(_learnt(masked, known, unseen))
    record.near("predicted words per input word: 5%, 15%, 40%, 80%", list(RATES), answers, 0.01, digits=2)
    wanted = [rate * (1 - MASK_SHARE * rate) ** 2 for rate in RATES]
    record.near("of these, with both neighbors visible: rate · (1 − 0.8 rate)²", wanted, usable, 0.015, digits=3)
    share = [one / two for one, two in zip(usable, answers, strict=True)]
    record.holds(
        "too much: no context",
        "fraction with both neighbors",
        ", ".join(f"{one:.0%}" for one in share),
        share == sorted(share)[::-1],
    )
    best = RATES[int(np.argmax(right))]
    record.holds(
        "accuracy of a trigram counting model after 7,680 words",
        "a trade",
        ", ".join(f"{one:.0%}" for one in right),
        best in RATES[1:3] and right[0] < right[1] and right[3] < max(right) - 0.1,
    )
    x = [100 * rate for rate in RATES]
    record.charts(
        Chart(
            "Per 100 input words",
            [
                Series("predicted words", x, [100 * one for one in answers], smooth=False),
                Series("with both neighbors", x, [100 * one for one in usable], smooth=False),
            ],
            x_label="masked, %",
        ),
        Chart(
            "Accuracy on new text, %",
            [Series("counting model", x, [100 * one for one in right], smooth=False)],
            x_label="masked, %",
        ),
    )
    record.answer(
        f"Not for every model: this one, which uses two neighbors, reaches {right[1]:.0%} with 15% and {right[2]:.0%} "
        "with 40%. Networks were compared at equal tokens (docs/results/ablations.md, three seeds): with 5% they had "
        "hardly learned anything, 15% reached 71.9 points, 40% 72.9."
    )


def _walks(count: int, seed: int = 0) -> np.ndarray:
    """Return random texts of 128 words; each word is followed by one of its four possible successors: int64 [count,
    128].
    """

    liked = generator(0, "lesson followers").integers(5, VOCAB, (VOCAB, 4))
    steps = generator(seed, "lesson walks").integers(4, size=(128, count))
    rows = [np.arange(count) % (VOCAB - 5) + 5]
    for step in steps[1:]:
        rows.append(liked[rows[-1], step])
    return np.stack(rows, axis=1)


def _told(masked: Masked, tokens: int) -> np.ndarray:
    """Return the positions to predict whose neighbors are not masked."""
    inner = masked.positions[(masked.positions > 0) & (masked.positions < tokens - 1)]
    return inner[(masked.input_ids[inner - 1] != 4) & (masked.input_ids[inner + 1] != 4)]


def _learnt(masked: Masked, places: np.ndarray, unseen: np.ndarray) -> float:
    """Return the accuracy on new words of predicting the most frequent word between the same two words."""
    seen = np.zeros((VOCAB, VOCAB, VOCAB), dtype=np.int64)
    targets = masked.labels[np.searchsorted(masked.positions, places)]
    np.add.at(seen, (masked.input_ids[places - 1], masked.input_ids[places + 1], targets), 1)
    guesses = seen[unseen[:-2], unseen[2:]].argmax(axis=-1)
    return float((guesses == unseen[1:-1]).mean())


SKIT = "Let's stick to improvisation in this skit"
FACTS = (
    "rome is the capital of italy",
    "paris is the capital of france",
    "madrid is the capital of spain",
    "the zebra is an animal of africa",
    "the lion is an animal of africa",
    "the river flows to the sea",
)
ROME = "rome is the [MASK] of italy"


def lesson_mlm_loss(record: LessonRecorder, probabilities: Matrix, correct: int) -> None:
    (guess,) = probabilities
    target = tuple(int(number == correct) for number in range(1, len(guess) + 1))
    found = explain_loss(guess, target)
    by_hand = -sum(math.log(p if t else 1 - p) for p, t in zip(guess, target, strict=True)) / len(guess)
    record.near("the slide's formula, by hand", by_hand, found.binary, law=True)
    record.near("−log of the correct word's probability", -math.log(guess[correct - 1]), found.categorical, law=True)
    record.near("the slide's formula on its P and T", 0.7161, found.binary, 5e-5)
    record.off(
        "the loss that BERT is trained with",
        "the formula above",
        1.7148,
        found.categorical,
        "BERT is not trained with a binary loss over the words, divided by N, but with the categorical one, −log 0.18",
        within=5e-5,
    )
    words = [f"word {number}" for number in range(1, len(guess) + 1)]
    rows = [(word, p, t, round(one, 4)) for word, p, t, one in zip(words, guess, target, found.terms, strict=True)]
    note = f"The categorical loss depends only on {words[correct - 1]}."
    record.show(Table(["", "P", "T", "binary term"], rows, note=note))
    sure = explain_loss((0.01, 0.01, 0.97, 0.01), (0, 0, 1, 0))
    record.holds(
        "a nearly correct prediction",
        "(asked)",
        f"{sure.binary:.4f} and {sure.categorical:.4f}",
        sure.categorical < 0.04 and sure.binary < sure.categorical,
        law=True,
    )
    count = len(guess)
    even = explain_loss((1 / count,) * count, target)
    record.near(f"uniform prediction: log {count}", math.log(count), even.categorical, law=True)
    record.answer(
        f"A uniform prediction over {count} words costs log {count} = {even.categorical:.4f}; over BERT's 30,522 "
        f"tokens {math.log(30_522):.2f}. The loss of an untrained model begins there."
    )


def lesson_whole_vocabulary(record: LessonRecorder, text: str) -> None:
    if text.count("[MASK]") != 1:
        raise InputError("text: pass a sentence with one [MASK].")
    known = "Aardvark Improvisation Zyzzyva and other words of a vocabulary"
    learned = f"{SKIT} {known}".lower()
    new = [word for word in words_of(text.replace("[MASK]", "")) if word.lower() not in learned]
    tokenizer = word_tokenizer(SKIT, known, *new)
    model = small_network(tokenizer, "mlm")
    filler = MaskFiller(model)
    probabilities = filler.probabilities(text)
    record.equal(
        "probabilities for one mask: the vocabulary size", tokenizer.vocab_size, probabilities.shape[1], law=True
    )
    record.near("they sum to", 1.0, float(probabilities.sum()), digits=2, law=True)
    listed = filler.fill([text], top_k=None)[0].masks[0].candidates
    record.equal("listed words", tokenizer.vocab_size, len(listed), law=True)
    scores = [one.score for one in listed]
    record.near("the listed ones sum to", 1.0, sum(scores), digits=2)
    record.holds(
        "the most probable first", "ranked", f"{scores[0]:.3f} to {scores[-1]:.4f}", scores == sorted(scores)[::-1]
    )
    record.show(
        Table(
            ["rank", "word", "probability"],
            [(one.rank, one.token_str, round(one.score, 4)) for one in listed[:8]],
            note="Predictions of an untrained network.",
        )
    )
    three = filler.fill([text], top_k=None, words=["aardvark", "improvisation", "zyzzyva"])[0].masks[0].candidates
    record.answer(
        "Yes, with its rank: "
        + ", ".join(f"{one.token_str} {one.score:.2%} (rank {one.rank})" for one in three)
        + ". maskwright fill-mask MODEL TEXT --word prints selected words."
    )


def lesson_rome(record: LessonRecorder) -> None:
    tokenizer = Tokenizer.train_from_iterator(FACTS, "word", 100)
    model = pretrain_small([[fact] for fact in FACTS] * 8, tokenizer, steps=120, max_length=16, mask_rate=0.25)
    filler = MaskFiller(model)
    guesses = filler.fill([ROME], top_k=5)[0].masks[0].candidates
    record.equal("top prediction for [MASK]", "capital", guesses[0].token_str)
    zebra = filler.fill([ROME], top_k=None, words=["zebra"])[0].masks[0].candidates[0]
    record.holds("probability of zebra", "(a random token)", f"{zebra.score:.2%}", zebra.score < guesses[0].score / 10)
    variants = {"[MASK]": ROME, "zebra": ROME.replace("[MASK]", "zebra"), "capital": ROME.replace("[MASK]", "capital")}
    found = {}
    place = ROME.split().index("[MASK]") + 1
    for shown, given in variants.items():
        ids = tokenizer(given).ids
        found[shown] = tokenizer.tokens[_guess(model, ids, place)]
    record.equal(
        "the target, when [MASK], zebra or capital is shown", "capital, capital, capital", ", ".join(found.values())
    )
    record.bars(ROME, [(one.token_str, one.score) for one in guesses], ".1%")
    other = filler.fill(["the [MASK] is an animal of africa"], top_k=2)[0].masks[0].candidates
    record.answer(
        f"No, both are equally frequent in the text: it predicts {other[0].token_str} with {other[0].score:.0%} and "
        f"{other[1].token_str} with {other[1].score:.0%}. A masked language model learns how often a word occurs in a "
        "context."
    )


def _guess(model: Model, ids: list[int], place: int) -> int:
    hidden = model.encode(Batch.from_sequences([ids])).hidden[place : place + 1]
    return int(model.mlm_logits(hidden).argmax())
