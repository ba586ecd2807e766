"""The lectures' tables of scores and weights, and what rounding does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import AUTOENCODER, SESSION, Lesson
from ..sheet import tiny

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Attention"
POEM = "[CLS] Before my bed lies a pool of moon bright"
SLIDE_SUMS = (1.01, 1.00, 0.99, 1.00, 1.00, 0.95, 1.00, 0.99, 1.00, 1.01)  # of the rows as the slide prints them


def _toy(sheet: Sheet) -> None:
    import torch

    from ...nn.scaling import attention_weights
    from ...train.report import Bar, Bars

    first, second = torch.tensor([112.0, 96.0, 16.0, 8.0]), torch.tensor([92.0, 124.0, 22.0, 8.0])
    sheet.equal("√64", 8, round(64**0.5))
    by_eye = "the slide rounds by eye: a softmax of its own scores gives these"
    exact = ([0.880791, 0.119202, 0.000005, 0.000002], [0.017986, 0.982011, 0.000003, 0.000000])
    found = [attention_weights(scores.double(), 64) for scores in (first, second)]
    sheet.off("112, 96, 16, 8", ".87 .12 .01 0", exact[0], found[0], by_eye, within=1e-6)
    sheet.off("The brown dog ran: 92, 124, 22, 8", ".08 .91 .01 0", exact[1], found[1], by_eye, within=1e-6)
    for name, weights in zip(("112, 96, 16, 8", "92, 124, 22, 8"), found, strict=True):
        sheet.near(f"sum of the weights of {name}", 1.0, float(weights.sum()), 1e-12, digits=2)
    names = ("112", "96", "16", "8")
    sheet.show(
        Bars(
            [Bar(name, one, f"{one:.4f}") for name, one in zip(names, found[0].tolist(), strict=True)],
            title="Weights of the first example",
        )
    )
    sharp = attention_weights(first.double())
    sheet.near("the same without the division: the first weight", 1.0, float(sharp[0]), 1e-6, digits=6)
    sheet.answer(
        f"One-hot: {float(sharp[0]):.7f} for the first word. A difference of 16 is e¹⁶, about 9 million to one; "
        "divided by 8 it is e², 7.4 to one."
    )


def _table(sheet: Sheet) -> None:
    import torch

    from ...data.batch import Batch
    from ...train.report import Grid
    from ..small import small_network, word_tokenizer

    words = POEM.split()
    tokenizer = word_tokenizer(" ".join(words[1:]), lowercase=False)
    (rest,) = tokenizer.encode_plain([" ".join(words[1:])])
    ids = [*tokenizer.opening_ids, *rest]
    seen = small_network(tokenizer.vocab_size).encode(Batch.from_sequences([ids]), attentions=True).attentions
    assert seen is not None
    weights = seen[0][0][0].detach().double()  # first layer, first head: [10, 10]
    sheet.equal("size of the table", [10, 10], list(weights.shape))
    off = float((weights.sum(dim=1) - 1).abs().max())
    sheet.holds("sum of each row", "1", f"1 within {tiny(off)}", off < 1e-6)
    explained = all(abs(one - 1) <= 0.05 + 1e-9 for one in SLIDE_SUMS)
    sheet.holds(
        "sums of the slide's rows",
        ", ".join(f"{one:.2f}" for one in SLIDE_SUMS),
        "each within 0.05 of 1",
        explained,
        "the slide prints two decimals, and ten rounded numbers sum to 0.95 up to 1.05",
    )
    rounded = (weights * 100).round().sum(dim=1) / 100
    spread = float((rounded - 1).abs().max())
    sheet.holds(
        "sums of our rows after rounding so",
        "0.95 to 1.01",
        f"{float(rounded.min()):.2f} to {float(rounded.max()):.2f}",
        0 < spread <= 0.05,
    )
    sheet.show(Grid(words, words, weights.tolist(), "Weights of an untrained head: who looks at whom"))
    worst = torch.full((1, 10), 0.1) + torch.tensor([0.0049, -0.0049] * 5)
    sheet.answer(
        f"By at most 0.005 for each of ten numbers, so 0.05 in all; {float((worst * 100).round().sum() / 100):.2f} "
        "where errors cancel. A table with a longer row may be further off. Weights that are computed sum to 1."
    )


def _cls(sheet: Sheet) -> None:
    from ...data.batch import Batch
    from ...train.report import Bar, Bars
    from ..small import small_network

    model = small_network(60)
    ids = [2, 11, 12, 13, 14, 15, 16, 3]
    before = model.encode(Batch.from_sequences([ids])).hidden[0]
    moves = []
    for place in range(1, len(ids)):
        changed = [*ids[:place], 40, *ids[place + 1 :]]
        moves.append(float((model.encode(Batch.from_sequences([changed])).hidden[0] - before).norm().detach()))
    sheet.holds(
        "another token at any place", "[CLS] sees all", f"[CLS] moves by {min(moves):.2f} or more", min(moves) > 1e-3
    )
    causal = small_network(60, attention="causal")
    still = causal.encode(Batch.from_sequences([ids])).hidden[0]
    other = causal.encode(Batch.from_sequences([[ids[0], *[40] * 7]])).hidden[0]
    gap = float((still - other).abs().max())
    sheet.holds("the first token of a left-to-right model", "(not BERT)", f"moves by {tiny(gap)}", gap < 1e-7)
    sheet.show(
        Bars(
            [Bar(f"place {place}", move) for place, move in enumerate(moves, 1)],
            title="How far [CLS] moves when the token of a place changes",
        )
    )
    sheet.answer(
        f"Nothing: all other tokens changed and it moved by {tiny(gap)}. Without a mask every token sees all, so BERT "
        "may judge the first one; GPT-2 has to judge the last."
    )


LESSONS = (
    Lesson(
        "toy-scores",
        PART,
        SESSION,
        "Self-Attention Architecture",
        "From scores to weights, twice",
        "Two examples give a query's scores against four words. Divided by √64 and soft-maxed they become weights. The "
        "slides' weights are not quite those of their scores.",
        ("nn.scaling:attention_weights",),
        "What would the weights be without the division by 8?",
        _toy,
    ),
    Lesson(
        "attention-table",
        PART,
        AUTOENCODER,
        "Left and right context",
        "A table of attention, and why its rows do not sum to 1",
        "Ten words of a poem, each looking at all ten, before and behind it. The rows of the slide sum to 0.95 up to "
        "1.01.",
        ("nn.attention:scaled_dot_product",),
        "How far off can a printed row be?",
        _table,
    ),
    Lesson(
        "cls-sees-all",
        PART,
        AUTOENCODER,
        "[CLS] token in BERT",
        "[CLS] sees every token",
        "Nothing is hidden from the first token: change any word and its vector changes. That is why it can stand for "
        "the whole text.",
        ("models.attending:executors",),
        "What does the first token of a left-to-right model see?",
        _cls,
    ),
)
