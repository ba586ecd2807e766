"""The lectures' tables of scores and weights, and the effect of rounding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import MOST, Matrix, integer, matrix, text, words_of
from ..lesson import AUTOENCODER, SESSION, Lesson
from ..recorder import difference, tiny
from .scaling import SCORES, column_names, inspect_scores, row_names

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
ROWS = 10_000
POEM = "Before my bed lies a pool of moon bright"
TOY = ((112.0, 96.0, 16.0, 8.0), (92.0, 124.0, 22.0, 8.0))
PRINTED_SUMS = "1.01 1.00 0.99 1.00 1.00 1.01 1.00 0.99 1.00 1.01"  # quoted; the slide's table is not carried here


def _toy(record: LessonRecorder, matrix: Matrix, text: str, head_dim: int) -> None:
    import torch

    from ...report import Bar, Bars
    from ..parts.scaling import attention_weights

    if record.is_own:
        inspect_scores(record, matrix, text, head_dim)
        return
    first, second = torch.tensor(TOY)
    record.equal("√64", 8, round(64**0.5))
    by_eye = "the slide's weights are approximate: the softmax of its scores gives these"
    found = [attention_weights(scores.double(), 64) for scores in (first, second)]
    by_hand = []
    for scores in (first, second):
        shares = [math.exp(score / 8) for score in scores.tolist()]
        by_hand.append([share / sum(shares) for share in shares])
    record.off("112, 96, 16, 8", ".87 .12 .01 0", by_hand[0], found[0], by_eye)
    record.off("The brown dog ran: 92, 124, 22, 8", ".08 .91 .01 0", by_hand[1], found[1], by_eye)
    for name, weights in zip(("112, 96, 16, 8", "92, 124, 22, 8"), found, strict=True):
        record.near(f"sum of the weights of {name}", 1.0, float(weights.sum()), digits=2)
    names = ("112", "96", "16", "8")
    record.show(
        Bars(
            [Bar(name, one, f"{one:.4f}") for name, one in zip(names, found[0].tolist(), strict=True)],
            title="Weights of the first example",
        )
    )
    sharp = attention_weights(first.double())
    record.near("the same without the division: the first weight", 1.0, float(sharp[0]), digits=6)
    record.answer(
        f"One-hot: {float(sharp[0]):.7f} for the first word. A difference of 16 is e¹⁶, about 9 million to one; "
        "divided by 8 it is e², 7.4 to one."
    )


def _attention_table(record: LessonRecorder, words: list[str]) -> None:
    """The weights of one untrained head on [CLS] and these words, each row of which sums to 1."""
    from ...data.batch import Batch
    from ...report import Grid
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(" ".join(words), lowercase=False)
    ids = [*tokenizer.opening_ids, *(one for own in tokenizer.encode_plain(words) for one in own)]
    seen = small_network(tokenizer.vocab_size, max_position_embeddings=4 * MOST).encode(
        Batch.from_sequences([ids]), attentions=True
    )
    assert seen.attentions is not None
    weights = seen.attentions[0][0][0].detach()  # first layer, first head: [tokens, tokens]
    tokens = [tokenizer.tokens[one] for one in ids]
    record.equal("size of the table", [len(tokens)] * 2, list(weights.shape), law=True)
    record.same("sum of each row", "1", weights.sum(dim=1), weights.new_ones(len(tokens)), said="1 within")
    record.show(Grid(tokens, tokens, weights.tolist(), "Attention weights of an untrained head"))
    rounded = (weights * 100).round().sum(dim=1) / 100
    bound = 0.005 * len(tokens)
    record.holds(
        "sums of the rows after rounding to two decimals",
        f"1 ± {bound:g}",
        f"{float(rounded.min()):.2f} to {float(rounded.max()):.2f}",
        bool(((rounded - 1).abs() <= bound + 1e-6).all()),
        law=True,
    )


def _sum_rows(record: LessonRecorder, matrix: Matrix, text: str) -> None:
    """Sums of the rows of a printed table of weights."""
    from ...report import Bar, Bars, Grid

    columns = column_names(text, len(matrix[0]))
    rows = columns if len(matrix) == len(columns) else row_names(len(matrix))
    sums = [sum(row) for row in matrix]
    bound = 0.005 * len(columns)
    for name, total in zip(rows, sums, strict=True):
        is_rounding = abs(total - 1) <= bound + 1e-9
        record.holds(f"{name}: sum", f"1 ± {bound:g}", f"{total:.4f}".rstrip("0").ljust(4, "0"), is_rounding, law=True)
    record.show(Grid(rows, columns, [list(row) for row in matrix], "The table"))
    record.show(Bars([Bar(name, one, f"{one:.2f}") for name, one in zip(rows, sums, strict=True)], title="Sums"))
    record.answer(f"Rounding each of {len(columns)} weights to two decimals changes a sum by at most {bound:g}.")


def _table(record: LessonRecorder, text: str, matrix: Matrix) -> None:
    from ...report import Bar, Bars
    from ..parts.scaling import attention_weights, normal

    if matrix:
        _sum_rows(record, matrix, text)
        return
    _attention_table(record, words_of(text))
    if record.is_own:
        return
    drawn = attention_weights(normal(ROWS, 10, purpose="lesson rows"))  # float64 [rows, 10]
    hundredths = (drawn * 100).round().sum(dim=1).long()
    sums, counts = hundredths.unique(return_counts=True)
    low, high = int(sums.min()), int(sums.max())
    printed = [round(100 * float(one)) for one in PRINTED_SUMS.split()]
    record.holds(
        f"sums of {ROWS:,} rows of ten weights, rounded to two decimals",
        PRINTED_SUMS,
        f"{low / 100:.2f} to {high / 100:.2f}",
        95 <= low <= min(printed) and max(printed) <= high <= 105,
        "the slide shows two decimals, and each of ten rounded numbers has an error of up to 0.005",
    )
    share = dict(zip(sums.tolist(), (counts / ROWS).tolist(), strict=True))
    bars = [Bar(f"{one / 100:.2f}", part, f"{part:.1%}") for one, part in share.items()]
    record.show(Bars(bars, title=f"Sums of {ROWS:,} rounded rows"))
    record.answer(
        f"By at most 0.005 for each of ten numbers, 0.05 in total. Of {ROWS:,} rows, {share.get(100, 0.0):.0%} still "
        f"sum to 1.00 after rounding, and the largest error is {max(100 - low, high - 100) / 100:.2f}, because errors "
        "cancel. Unrounded weights sum to 1. Pass a matrix for the sums of another table."
    )


def _cls(record: LessonRecorder) -> None:
    from ...data.batch import Batch
    from ...report import Bar, Bars
    from ..small import small_network

    model = small_network(60)
    ids = [2, 11, 12, 13, 14, 15, 16, 3]
    before = model.encode(Batch.from_sequences([ids])).hidden[0]
    moves = []
    for place in range(1, len(ids)):
        changed = [*ids[:place], 40, *ids[place + 1 :]]
        moves.append(float((model.encode(Batch.from_sequences([changed])).hidden[0] - before).norm().detach()))
    record.holds(
        "another token at any position",
        "[CLS] attends to all",
        f"[CLS] changes by at least {min(moves):.2f}",
        min(moves) > 1e-3,
    )
    causal = small_network(60, attention="causal")
    still = causal.encode(Batch.from_sequences([ids])).hidden[0]
    other = causal.encode(Batch.from_sequences([[ids[0], *[40] * 7]])).hidden[0]
    gap = difference(still, other)
    record.same("the first token of a causal model", "(not BERT)", still, other, said="moves by")
    record.show(
        Bars(
            [Bar(f"place {place}", move) for place, move in enumerate(moves, 1)],
            title="Change of [CLS] by position of the changed token",
        )
    )
    record.answer(
        f"Only to itself: when all other tokens changed, it changed by {tiny(gap)}. In BERT every token attends to "
        "all, so classification can use the first one; GPT-2 has to use the last."
    )


LESSONS = (
    Lesson(
        "toy-scores",
        PART,
        SESSION,
        "Self-Attention Architecture",
        "From scores to weights",
        "Two examples show a query's scores for four words. Division by √64 and a softmax convert them to weights. "
        "The slides' weights differ slightly from those of their scores.",
        ("lessons.parts.scaling:attention_weights",),
        "What would the weights be without the division by 8?",
        _toy,
        (
            integer("head_dim", "Head dimension d", 64, 1, 1024),
            matrix("matrix", "Scores, one row per query", TOY, -SCORES, SCORES),
            text("text", "Words of the columns", ""),
        ),
    ),
    Lesson(
        "attention-table",
        PART,
        AUTOENCODER,
        "Left and right context",
        "Rounded attention weights",
        "Each of ten words of a poem attends to all ten. The rounded rows of the slide sum to 0.99 to 1.01.",
        ("nn.attention:scaled_dot_product", "lessons.parts.scaling:attention_weights"),
        "How large can the error of a rounded row be?",
        _table,
        (text("text", "Sentence", POEM), matrix("matrix", "Or a printed table, for the sums of its rows", (), 0, 100)),
    ),
    Lesson(
        "cls-sees-all",
        PART,
        AUTOENCODER,
        "[CLS] token in BERT",
        "[CLS] attends to every token",
        "The first token attends to every token: if any word changes, its vector changes. It can therefore represent "
        "the whole text.",
        ("models.transformer:executors",),
        "To which tokens does the first token of a causal model attend?",
        _cls,
    ),
)
