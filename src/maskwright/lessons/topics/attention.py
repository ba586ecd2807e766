"""Attention: as a weighted mean, its scale, tables of scores and weights, and what changes with a word."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ...core.errors import InputError
from ...core.util import plural
from ...data.batch import Batch
from ...inspect.attention import attention
from ...inspect.moves import head_moves
from ...nn.attention import fused_scaled_dot_product, scaled_dot_product, self_attention
from ...report import Bar, Bars, Grid, Table, Token, Tokens
from ...report.charts import Chart, Series
from ..inputs import MOST, Matrix, words_of
from ..parts import (
    SAMPLES,
    attention_weights,
    entropy,
    identities,
    kernel_regression,
    moments,
    normal,
    sampled_scores,
    saturation,
    soft_lookup,
)
from ..recorder import LessonRecorder, difference, tiny
from ..small import small_network, word_tokenizer

FAR = 80.0  # a score so high that the other weights are zero
BY_HAND = ((20 / 6, 2.0, 2.0, 8.0), (3.0, 3.0, 3.0, 8.0), (4.5, 5.0, 4.5, 8.0), (3.5, 1.5, 1.5, 8.0))


def lesson_self_attention(record: LessonRecorder, tokens: Matrix) -> None:
    x = torch.tensor(tokens)
    first = self_attention(x)[0]
    scores = [sum(a * b for a, b in zip(tokens[0], one, strict=True)) for one in tokens]  # of x_1: 1, 0, 1
    shares = [math.exp(score - max(scores)) for score in scores]
    by_hand = [sum(p * one[n] for p, one in zip(shares, tokens, strict=True)) / sum(shares) for n in range(x.shape[1])]
    record.near(f"z_1 of {plural(len(tokens), 'token', 'tokens')}, by hand", by_hand, first, law=True)
    words = x if record.is_own else torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    order = list(reversed(range(len(tokens)))) if record.is_own else [3, 0, 5, 1, 4, 2]
    turned, plain = self_attention(words[order]), self_attention(words)
    gap = difference(turned, plain[order])
    record.same("other order of the tokens", "the same vectors in that order", turned, plain[order])
    record.show(
        Grid(
            [f"x{place}" for place in range(1, len(x) + 1)],
            [str(place) for place in range(1, x.shape[1] + 1)],
            self_attention(x).tolist(),
            "z = softmax(x xᵀ) x",
            digits=3,
        )
    )
    twice = self_attention(torch.cat([words, words]))[: len(words)]
    same = difference(twice, plain)
    record.same("the text repeated twice", "(asked)", twice, plain, said="vectors differ by")
    record.answer(
        "No. Another order, or repeating the whole text, changes no token's vector (by at most "
        f"{tiny(max(gap, same))}). Attention does not encode order, so position embeddings are added."
    )


def lesson_attention_by_hand(record: LessonRecorder, shares: Matrix, values: Matrix) -> None:
    query, value = torch.eye(4, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
    key = 2 * torch.tensor(shares, dtype=torch.float64).log().T  # so that q · k / √4 is the logarithm of a share
    context, weights = scaled_dot_product(query, key, value)
    for row in range(4):
        record.near(f"z_{row + 1}", BY_HAND[row], context[row], digits=3)
    by_hand = [share / sum(shares[0]) for share in shares[0]]
    record.near("weights of the first token: its shares divided by their sum", by_hand, weights[0], law=True)
    loops = torch.stack([scaled_dot_product(query[i : i + 1], key, value)[0][0] for i in range(4)])
    record.same("all tokens at once, and separately", "equal", loops, context)
    fused = fused_scaled_dot_product(query[None, None], key[None, None], value[None, None])[0, 0]
    record.same("the fused kernel and the formula", "equal", fused, context)
    names = [f"token {row + 1}" for row in range(4)]
    record.show(Grid(names, [str(row + 1) for row in range(4)], weights.tolist(), "Attention pattern", digits=3))
    last = ", ".join(f"{float(row[3]):.3g}" for row in context)
    record.answer(
        f"The last components of the four rows are {last}. The weights sum to 1, so if all values are equal, the mean "
        "is that value for any weights."
    )


def lesson_weighted_sum(record: LessonRecorder, text: str, matrix: Matrix) -> None:
    words = words_of(text)
    if matrix and len(matrix[0]) != len(words):
        raise InputError(f"The text has {len(words)} words, the matrix {len(matrix[0])} numbers: pass one per word.")
    row = matrix[0] if matrix else (FAR, FAR, *(0.0,) * (len(words) - 2))
    vectors = torch.eye(len(words), dtype=torch.float64)
    query = math.sqrt(len(words)) * torch.tensor([row], dtype=torch.float64)  # q · k / √d is the score of a word
    total, weights = scaled_dot_product(query, vectors, vectors)
    shares = [math.exp(one - max(row)) for one in row]
    by_hand = [share / sum(shares) for share in shares]
    record.near("weights of " + " ".join(words), by_hand, weights[0], digits=2, law=True)
    formula = " + ".join(f"{share:.2f}·{word}" for share, word in zip(by_hand, words, strict=True))
    record.near(f"Vec = {formula}", by_hand, total[0], digits=2, law=True)
    record.near("Vec(deep) = 0.5·深 + 0.5·度", [0.5, 0.5, 0.0, 0.0], total[0], digits=1)
    record.near("weights sum to", 1.0, float(weights.sum()), digits=2, law=True)
    tokens = [Token(word, "right" if one > 0.1 else "", f"{one:.2f}") for word, one in zip(words, by_hand, strict=True)]
    record.show(Tokens([("sum", tokens)]))
    mild = scaled_dot_product(query / FAR, vectors, vectors)[1][0]
    record.answer(
        f"With scores {FAR:g} times smaller, the weights become {', '.join(f'{one:.2f}' for one in mild.tolist())}: a "
        "softmax is never exactly 0. A weight only vanishes if its score is far below the others."
    )


def lesson_soft_dictionary(record: LessonRecorder, key: str, sharpness: float) -> None:
    telephone = {"jack": 4098, "sape": 4139}
    found = soft_lookup(telephone, key)
    record.equal(f"tel['{key}']", 4098, round(found.value))
    record.equal("tel['jack']", 4098, round(soft_lookup(telephone, "jack").value))
    record.equal("tel['sap']", 4139, round(soft_lookup(telephone, "sap").value))
    record.near("weights sum to", 1.0, sum(found.weights.values()), digits=2, law=True)
    soft = soft_lookup(telephone, key, sharpness)
    record.bars(f"Weights for '{key}', with a sharpness of {sharpness:g}", soft.weights, ".2f")
    mean = soft_lookup(telephone, key, sharpness=0).value
    record.near("uniform weights: the mean of the values", 4118.5, mean, digits=1, law=True)
    record.answer(
        f"Then every key has the same weight, and the value is the mean, {mean:,.1f}. With sharpness {sharpness:g} "
        f"it is {soft.value:,.1f}; the sharper the softmax, the more attention resembles a dictionary."
    )


def lesson_kernel_smoothing(record: LessonRecorder, width: float, points: int) -> None:
    two = torch.tensor([0.0, 1.0], dtype=torch.float64)
    values, weights = kernel_regression(two[:1], two, torch.tensor([10.0, 20.0], dtype=torch.float64), width)
    near = 1 / (1 + math.exp(-0.5 / width**2))
    record.near(f"weights at distance 0 and 1, width {width:g}", [near, 1 - near], weights[0], digits=6, law=True)
    record.near("the weighted mean of 10 and 20", 10 * near + 20 * (1 - near), float(values[0]), law=True)
    known = torch.linspace(0, 6, points, dtype=torch.float64)
    x = torch.linspace(0, 6, 61, dtype=torch.float64)
    lines = {own: kernel_regression(x, known, known.sin(), own)[0] for own in sorted({0.1, 0.5, 3.0, width})}
    series = [Series(f"width {own:g}", x.tolist(), line.tolist(), smooth=False) for own, line in lines.items()]
    record.charts(Chart(f"A sine from {points} of its points", series, x_label="x"))
    nearest = (x[:, None] - known).abs().argmin(dim=1)
    flat, stairs = float(lines[3.0].std()), float((lines[0.1] - known.sin()[nearest]).abs().median())
    record.holds(
        "a narrow kernel returns the nearest value", "nearest neighbor", f"differs by {stairs:.3f}", stairs < 0.05
    )
    record.answer(
        f"A wide kernel returns the mean of all values (standard deviation {flat:.2f}), a narrow one the nearest known "
        f"value (differs by {stairs:.3f}). The width corresponds to the scale of attention."
    )


OWN_SAMPLES = 10_000  # with your own d: an answer at once
MEANS_BY_HAND = (-1.0, 4.25, -2.0, 17.25, 36.0)  # for means 1 and -2, variances 4 and 0.25, c = 3


def lesson_why_scale(record: LessonRecorder, head_dim: int) -> None:
    rows = []
    sizes = (head_dim,) if record.is_own else (3, 16, 64, head_dim)
    count = OWN_SAMPLES if record.is_own else SAMPLES
    for size in sizes:
        scores = sampled_scores(size, count)
        found = moments(scores)
        sure = abs(found.mean) <= 3 * found.standard_error and abs(found.variance / size - 1) <= 0.02
        record.holds(
            f"E(z), Var(z) for d = {size}",
            f"0, {size}",
            f"{found.mean:.3f}, {found.variance:.2f}".replace("-", "\N{MINUS SIGN}"),
            sure,
        )
        scaled = moments(scores / math.sqrt(size))
        rows.append((size, round(found.mean, 3), round(found.variance, 2), round(scaled.variance, 3)))
    record.near(f"Var(z / √d), d = {head_dim}", 1.0, rows[-1][3], 0.05 if record.is_own else 0.02, digits=2, law=True)
    for rule, by_hand in zip(*(((), ()) if record.is_own else (identities(), MEANS_BY_HAND)), strict=True):
        record.near(rule.rule, by_hand, rule.sampled, 0.03 * max(abs(by_hand), 1.0), digits=2)
        record.near("by the formula", by_hand, rule.formula, digits=2)
    columns = ["d", "mean of z", "variance of z", "variance of z / √d"]
    record.show(Table(columns, rows, title=f"{count:,} random queries and keys", right=columns))
    record.answer(
        f"Division by d would make the variance 1 / d, {rows[-1][2] / head_dim**2:.4f} for d = {head_dim}, and all "
        "weights nearly equal. The variance of cX is c² times that of X, so √d reduces the variance from d to 1."
    )


def inspect_scores(record: LessonRecorder, matrix: Matrix, text: str, head_dim: int) -> None:
    """Softmax of attention scores divided by √d, compared with the weights without the division."""
    scores = torch.tensor(matrix, dtype=torch.float64)  # [queries, keys]
    keys = column_names(text, scores.shape[1])
    queries = keys[-len(scores) :] if len(scores) <= len(keys) and words_of(text) == keys else row_names(len(scores))
    plain, scaled = attention_weights(scores), attention_weights(scores, head_dim)
    root = math.sqrt(head_dim)
    for name, row, weights in zip(queries, matrix, scaled, strict=True):
        shares = [math.exp((one - max(row)) / root) for one in row]
        by_hand = [share / sum(shares) for share in shares]
        record.near(f"{name}: softmax(z / √{head_dim}), by hand", by_hand, weights, law=True)
    record.same("each row sums to", "1", scaled.sum(dim=1), scaled.new_ones(len(scaled)), said="1 within")
    record.show(
        Grid(queries, keys, (scores / root).tolist(), f"Scores divided by √{head_dim}", digits=2),
        Grid(queries, keys, plain.tolist(), "Weights without the division", digits=4),
        Grid(queries, keys, scaled.tolist(), f"Weights after division by √{head_dim}", digits=4),
    )
    cells = [[" ".join(f"{one:.2f}" for one in row) for row in (scores / root).tolist()]]
    cells += [[" ".join(f"{one:.4f}" for one in row) for row in weights.tolist()] for weights in (scaled, plain)]
    cells += [[f"{float(one):.3f}" for one in entropy(weights)] for weights in (scaled, plain)]
    columns = ["", f"z / √{head_dim}", "weights", "weights unscaled", "entropy", "entropy unscaled"]
    record.show(Table(columns, list(zip(queries, *cells, strict=True)), right=columns[1:]))
    hot = int((plain.max(dim=1).values > 0.99).sum())
    record.answer(
        f"Without the division, {hot} of {len(plain)} rows have a weight above 0.99; with it, "
        f"{int((scaled.max(dim=1).values > 0.99).sum())} do."
    )


def column_names(text: str, count: int) -> list[str]:
    """The words of the text if it has as many as there are columns, else numbers."""
    words = words_of(text)
    return words if len(words) == count else [str(number) for number in range(1, count + 1)]


def row_names(count: int) -> list[str]:
    """Numbered names of rows."""
    return [f"row {number}" for number in range(1, count + 1)]


def lesson_saturation(record: LessonRecorder, matrix: Matrix, text: str, head_dim: int) -> None:
    inspect_scores(record, matrix, text, head_dim)
    if record.is_own:
        return
    plain = attention_weights(torch.tensor(matrix))
    record.holds(
        "rows of 'Hi how are you' unscaled",
        "one-hot",
        ", ".join(f"{row.max():.4f}" for row in plain),
        bool((plain.max(dim=1).values > 0.9999).all()),
        "the first row is omitted: the slide has a z instead of its first score",
    )
    sizes = (4, 16, 64, 256)
    found = [saturation(size) for size in sizes]
    falls = all(a.slope > b.slope and a.entropy > b.entropy for a, b in zip(found, found[1:], strict=False))
    record.holds(
        "entropy and gradient without the scale",
        "saturated, vanishing gradient",
        f"gradient {found[0].slope:.2f} at d = 4, {found[-1].slope:.2f} at d = 256",
        falls,
    )
    most = max(one.scaled_entropy for one in found)
    record.holds("maximum entropy", "at most log 16 = 2.77", f"{most:.2f}", 0 < most <= math.log(16))
    spread = max(one.scaled_entropy for one in found) - min(one.scaled_entropy for one in found)
    record.holds("entropy with the scale", "the same for every d", f"differs by {spread:.3f}", spread < 0.05)
    x = [float(size) for size in sizes]
    charts = [
        Chart(
            "Entropy of the softmax over 16 keys",
            [
                Series("unscaled", x, [one.entropy for one in found]),
                Series("scaled", x, [one.scaled_entropy for one in found]),
            ],
            x_label="d",
            baselines={"all equal": math.log(16)},
        ),
        Chart(
            "Norm of its gradient",
            [
                Series("unscaled", x, [one.slope for one in found]),
                Series("scaled", x, [one.scaled_slope for one in found]),
            ],
            x_label="d",
        ),
    ]
    record.charts(*charts)
    record.answer(
        f"Hardly: at d = 256, the gradient of the unscaled softmax is {found[-1].slope / found[-1].scaled_slope:.0%} "
        "of the scaled one. A head that saturates early cannot be corrected."
    )


ROWS = 10_000
TOY = ((112.0, 96.0, 16.0, 8.0), (92.0, 124.0, 22.0, 8.0))
PRINTED_SUMS = "1.01 1.00 0.99 1.00 1.00 1.01 1.00 0.99 1.00 1.01"  # quoted; the slide's table is not carried here


def lesson_toy_scores(record: LessonRecorder, matrix: Matrix, text: str, head_dim: int) -> None:
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
    record.bars("Weights of the first example", zip(names, found[0].tolist(), strict=True), ".4f")
    sharp = attention_weights(first.double())
    record.near("the same without the division: the first weight", 1.0, float(sharp[0]), digits=6)
    record.answer(
        f"One-hot: {float(sharp[0]):.7f} for the first word. A difference of 16 is e¹⁶, about 9 million to one; "
        "divided by 8 it is e², 7.4 to one."
    )


def _attention_table(record: LessonRecorder, words: list[str]) -> None:
    """The weights of one untrained head on [CLS] and these words, each row of which sums to 1."""
    tokenizer = word_tokenizer(" ".join(words), lowercase=False)
    ids = [*tokenizer.opening_ids, *(one for own in tokenizer.encode_plain(words) for one in own)]
    seen = small_network(tokenizer, max_position_embeddings=4 * MOST).encode(
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

    columns = column_names(text, len(matrix[0]))
    rows = columns if len(matrix) == len(columns) else row_names(len(matrix))
    sums = [sum(row) for row in matrix]
    bound = 0.005 * len(columns)
    for name, total in zip(rows, sums, strict=True):
        is_rounding = abs(total - 1) <= bound + 1e-9
        record.holds(f"{name}: sum", f"1 ± {bound:g}", f"{total:.4f}".rstrip("0").ljust(4, "0"), is_rounding, law=True)
    record.show(Grid(rows, columns, [list(row) for row in matrix], "The table"))
    record.bars("Sums", zip(rows, sums, strict=True), ".2f")
    record.answer(f"Rounding each of {len(columns)} weights to two decimals changes a sum by at most {bound:g}.")


def lesson_attention_table(record: LessonRecorder, text: str, matrix: Matrix) -> None:
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


def lesson_cls_sees_all(record: LessonRecorder) -> None:
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
    record.bars(
        "Change of [CLS] by position of the changed token",
        [(f"place {place}", move) for place, move in enumerate(moves, 1)],
    )
    record.answer(
        f"Only to itself: when all other tokens changed, it changed by {tiny(gap)}. In BERT every token attends to "
        "all, so classification can use the first one; GPT-2 has to use the last."
    )


def lesson_tired_or_wide(record: LessonRecorder, first: str, second: str, word: str) -> None:
    for name, given in (("first", first), ("second", second)):
        if word.lower() not in [one.lower() for one in words_of(given)]:
            raise InputError(f"word: '{word}' is not in the {name} sentence; pass a word of both.")
    word = word.lower()
    tokenizer = word_tokenizer(first, second)
    sizes: dict[str, Any] = {"num_hidden_layers": 6, "num_attention_heads": 8}
    model = small_network(tokenizer, **sizes)
    before, after = (attention(model, text).main for text in (first, second))
    moves = head_moves(before, after, word)
    best = moves.moves[0]
    record.equal("layers and heads", (6, 8), tuple(before.weights.shape[:2]), law=True)
    sums = before.weights.sum(axis=-1)
    record.same("every row of attention sums to", "1", sums, np.ones_like(sums), said="1 within")
    if len(words_of(first)) == len(words_of(second)):
        places = [list(one.queries.labels).index(word) for one in (before, after)]
        rows = [one.of(best.layer, best.head)[n].astype(float) for one, n in zip((before, after), places, strict=True)]
        by_hand = float(np.abs(rows[0] - rows[1]).sum() / 2)
        record.near("attention change, by hand: half the sum of all differences", by_hand, best.distance)
    record.equal("of 48 heads, those with a larger change", 0, int((moves.distances > best.distance).sum()), law=True)
    same = head_moves(before, attention(model, first).main, word)
    record.near("the same sentence twice", 0.0, float(same.distances.max()), of=before.weights, law=True)
    causal = small_network(tokenizer, attention="causal", type_vocab_size=0, pooler=False, **sizes)
    left = head_moves(attention(causal, first).main, attention(causal, second).main, word)
    record.near("a unidirectional network", 0.0, float(left.distances.max()), of=before.weights)
    heads = [f"head {number}" for number in before.heads]
    record.show(
        Grid(
            [f"layer {number}" for number in before.layers],
            heads,
            moves.distances.tolist(),
            f"Attention change of '{word}'",
        )
    )
    bars = [
        Bar(f"{one.label}: {name}", value, f"{value:.3f}")
        for one in best.shifts[:3]
        for name, value in zip(_names(first, second), (one.before, one.after), strict=True)
    ]
    record.show(Bars(bars, title=f"Layer {best.layer}, head {best.head}: attention of '{word}' to"))
    record.answer(
        "Only for words before the change: a causal network has the same rows for both sentences where all words up to "
        f"'{word}' are equal (here they differ by {float(left.distances.max()):.2g}). These weights are random: head "
        f"{best.head} of layer {best.layer} has the largest change, {best.distance:.3f}. In a trained network it is "
        "meaningful: docs/how-to/inspect.md shows a head of MiniLM in which 'it' attends to 'animal' with 64% for "
        "tired and 27% for wide."
    )


def _names(first: str, second: str) -> tuple[str, str]:
    """The last words of both sentences, or their numbers if these are equal."""
    last = (words_of(first)[-1], words_of(second)[-1])
    return last if last[0] != last[1] else ("first", "second")
