"""The masked LM loss, the distribution over the vocabulary, and a learned fact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..inputs import Matrix, integer, matrix, text, words_of
from ..lesson import APPLICATIONS, AUTOENCODER, Lesson

if TYPE_CHECKING:
    from ...models.model import Model
    from ..recorder import LessonRecorder

PART = "Pre-training"
PREDICTED = ((0.6, 0.12, 0.18, 0.1),)
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


def _loss(record: LessonRecorder, probabilities: Matrix, correct: int) -> None:
    from ...report import Table
    from ..parts.explainers import explain_loss

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


def _vocabulary(record: LessonRecorder, text: str) -> None:
    from ...inference.fill_mask import MaskFiller
    from ...report import Table
    from ..small import small_network, word_tokenizer

    if text.count("[MASK]") != 1:
        raise InputError("text: pass a sentence with one [MASK].")
    known = "Aardvark Improvisation Zyzzyva and other words of a vocabulary"
    learned = f"{SKIT} {known}".lower()
    new = [word for word in words_of(text.replace("[MASK]", "")) if word.lower() not in learned]
    tokenizer = word_tokenizer(SKIT, known, *new)
    model = small_network(tokenizer.vocab_size, "mlm")
    model.tokenizer = tokenizer
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


def _rome(record: LessonRecorder) -> None:
    from ...inference.fill_mask import MaskFiller
    from ...report import Bar, Bars
    from ...text.tokenizers.tokenizer import Tokenizer
    from ...train.pretraining.job import pretrain_small

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
    record.show(Bars([Bar(one.token_str, one.score, f"{one.score:.1%}") for one in guesses], title=ROME))
    other = filler.fill(["the [MASK] is an animal of africa"], top_k=2)[0].masks[0].candidates
    record.answer(
        f"No, both are equally frequent in the text: it predicts {other[0].token_str} with {other[0].score:.0%} and "
        f"{other[1].token_str} with {other[1].score:.0%}. A masked language model learns how often a word occurs in a "
        "context."
    )


def _guess(model: Model, ids: list[int], place: int) -> int:
    from ...data.batch import Batch

    hidden = model.encode(Batch.from_sequences([ids])).hidden[place : place + 1]
    return int(model.mlm_logits(hidden).argmax())


LESSONS = (
    Lesson(
        "mlm-loss",
        PART,
        APPLICATIONS,
        "BERT: MLM loss",
        "Binary and categorical cross-entropy",
        "The slide shows a binary cross-entropy over the vocabulary, divided by N. BERT is trained with the "
        "categorical one: the negative log probability of the correct word. On the slide's numbers they differ.",
        ("lessons.parts.explainers:explain_loss",),
        "What is the loss of an untrained model?",
        _loss,
        (
            matrix("probabilities", "Predicted probabilities, in one row", PREDICTED, 0, 1, rows=1, columns=4),
            integer("correct", "Number of the correct word", 3, 1, 4),
        ),
    ),
    Lesson(
        "whole-vocabulary",
        PART,
        APPLICATIONS,
        "BERT: predict the masked token",
        "A prediction is a distribution over the vocabulary",
        "From Aardvark to Zyzzyva: the prediction at a mask is a probability for each word of the vocabulary; they "
        "sum to 1.",
        ("inference.fill_mask:MaskFiller.probabilities", "inference.fill_mask:MaskFiller.fill"),
        "Can you query the probability of any word?",
        _vocabulary,
        (text("text", "Sentence with one [MASK]", SKIT.replace("improvisation", "[MASK]")),),
    ),
    Lesson(
        "rome",
        PART,
        AUTOENCODER,
        "Masked Language Model",
        "Rome is the [MASK] of Italy",
        "A network of two layers is trained on six sentences for a few seconds. It then predicts the word of the "
        "slide, whether [MASK], a random word or the word itself is the input.",
        ("train.pretraining.job:pretrain_small",),
        "The text contains the same sentence with zebras and with lions. Does the model prefer one?",
        _rome,
    ),
)
