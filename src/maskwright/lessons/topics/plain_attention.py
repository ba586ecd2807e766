"""Attention as a weighted mean: without parameters, by hand, as a dictionary, as kernel smoothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ...core.util import plural
from ..inputs import Matrix, integer, matrix, number, text, words_of
from ..lesson import FRONTIERS, NEUROCOMPUTING, SESSION, Lesson
from ..recorder import difference, tiny

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
SHARES = ((3, 1, 1, 1), (1, 1, 1, 1), (1, 2, 1, 4), (5, 1, 1, 1))  # weights of the hand example, before the sum
VALUES = ((4.0, 0.0, 0.0, 8.0), (0.0, 4.0, 0.0, 8.0), (0.0, 0.0, 4.0, 8.0), (8.0, 8.0, 8.0, 8.0))
TOKENS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
FAR = 80.0  # a score so high that the other weights are zero
BY_HAND = ((20 / 6, 2.0, 2.0, 8.0), (3.0, 3.0, 3.0, 8.0), (4.5, 5.0, 4.5, 8.0), (3.5, 1.5, 1.5, 8.0))


def _basic(record: LessonRecorder, tokens: Matrix) -> None:
    import torch

    from ...nn.attention import self_attention
    from ...report import Grid

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


def _by_hand(record: LessonRecorder, shares: Matrix, values: Matrix) -> None:
    import torch

    from ...nn.attention import fused_scaled_dot_product, scaled_dot_product
    from ...report import Grid

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


def _weighted_sum(record: LessonRecorder, text: str, matrix: Matrix) -> None:
    import torch

    from ...nn.attention import scaled_dot_product
    from ...report import Token, Tokens

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


def _dictionary(record: LessonRecorder, key: str, sharpness: float) -> None:
    from ...report import Bar, Bars
    from ..parts.explainers import soft_lookup

    telephone = {"jack": 4098, "sape": 4139}
    found = soft_lookup(telephone, key)
    record.equal(f"tel['{key}']", 4098, round(found.value))
    record.equal("tel['jack']", 4098, round(soft_lookup(telephone, "jack").value))
    record.equal("tel['sap']", 4139, round(soft_lookup(telephone, "sap").value))
    record.near("weights sum to", 1.0, sum(found.weights.values()), digits=2, law=True)
    soft = soft_lookup(telephone, key, sharpness)
    record.show(
        Bars(
            [Bar(name, weight, f"{weight:.2f}") for name, weight in soft.weights.items()],
            title=f"Weights for '{key}', with a sharpness of {sharpness:g}",
        )
    )
    mean = soft_lookup(telephone, key, sharpness=0).value
    record.near("uniform weights: the mean of the values", 4118.5, mean, digits=1, law=True)
    record.answer(
        f"Then every key has the same weight, and the value is the mean, {mean:,.1f}. With sharpness {sharpness:g} "
        f"it is {soft.value:,.1f}; the sharper the softmax, the more attention resembles a dictionary."
    )


def _kernel(record: LessonRecorder, width: float, points: int) -> None:
    import torch

    from ...report import Chart, Curves, Series
    from ..parts.explainers import kernel_regression

    two = torch.tensor([0.0, 1.0], dtype=torch.float64)
    values, weights = kernel_regression(two[:1], two, torch.tensor([10.0, 20.0], dtype=torch.float64), width)
    near = 1 / (1 + math.exp(-0.5 / width**2))
    record.near(f"weights at distance 0 and 1, width {width:g}", [near, 1 - near], weights[0], digits=6, law=True)
    record.near("the weighted mean of 10 and 20", 10 * near + 20 * (1 - near), float(values[0]), law=True)
    known = torch.linspace(0, 6, points, dtype=torch.float64)
    x = torch.linspace(0, 6, 61, dtype=torch.float64)
    lines = {own: kernel_regression(x, known, known.sin(), own)[0] for own in sorted({0.1, 0.5, 3.0, width})}
    series = [Series(f"width {own:g}", x.tolist(), line.tolist(), smooth=False) for own, line in lines.items()]
    record.show(Curves([Chart(f"A sine from {points} of its points", series, x_label="x")], title=""))
    nearest = (x[:, None] - known).abs().argmin(dim=1)
    flat, stairs = float(lines[3.0].std()), float((lines[0.1] - known.sin()[nearest]).abs().median())
    record.holds(
        "a narrow kernel returns the nearest value", "nearest neighbor", f"differs by {stairs:.3f}", stairs < 0.05
    )
    record.answer(
        f"A wide kernel returns the mean of all values (standard deviation {flat:.2f}), a narrow one the nearest known "
        f"value (differs by {stairs:.3f}). The width corresponds to the scale of attention."
    )


LESSONS = (
    Lesson(
        "self-attention",
        PART,
        FRONTIERS,
        "Basic Self-Attention",
        "Self-attention without parameters",
        "Each token becomes the mean of all tokens, weighted by similarity: z = softmax(x xᵀ) x. There are no "
        "parameters, and the order of the tokens has no effect.",
        ("nn.attention:self_attention",),
        "Does a token's vector change if the others are reordered?",
        _basic,
        (matrix("tokens", "Vectors, one row per token", TOKENS, -10, 10),),
    ),
    Lesson(
        "attention-by-hand",
        PART,
        FRONTIERS,
        "Self-Attention: q, k, v",
        "Attention by hand",
        "Four tokens, four dimensions, and keys chosen so that the weights are simple fractions: half and sixths, "
        "quarters, eighths. The library must compute the same values as pencil and paper.",
        ("nn.attention:scaled_dot_product", "nn.attention:fused_scaled_dot_product"),
        "The last component of every value is 8. What is it after attention, and why?",
        _by_hand,
        (
            matrix("shares", "Shares of each token's attention", SHARES, 1e-6, 1000, rows=4, columns=4),
            matrix("values", "Values, one row per token", VALUES, -1000, 1000, rows=4, columns=4),
        ),
    ),
    Lesson(
        "weighted-sum",
        PART,
        FRONTIERS,
        "Attention Mechanism",
        "A word from two characters",
        "To generate 'deep', a translation model of 深度学习 attends to 深 and 度 with half of its attention each, "
        "and not to the other two.",
        ("nn.attention:scaled_dot_product",),
        "What if the scores of the two are only slightly higher?",
        _weighted_sum,
        (
            text("text", "Words; a Chinese or Japanese character is one", "深度学习", 2),
            matrix("matrix", "Score of each word, in one row", (), -1e6, 1e6, rows=1),
        ),
    ),
    Lesson(
        "soft-dictionary",
        PART,
        NEUROCOMPUTING,
        "Self-attention: a dictionary",
        "A dictionary with approximate keys",
        "A dictionary finds a key or fails. Attention compares the query with every key and returns the mean of the "
        "values, weighted by similarity; a nearly correct key gets nearly all of the weight.",
        ("lessons.parts.explainers:soft_lookup",),
        "What if similarity has no effect?",
        _dictionary,
        (text("key", "Key", "jacky", 1, 4), number("sharpness", "Sharpness of the softmax", 2, 0, 40, 0.5)),
    ),
    Lesson(
        "kernel-smoothing",
        PART,
        SESSION,
        "Attention: Nadaraya–Watson",
        "Attention is older than neural networks",
        "In 1964 Nadaraya and Watson estimated a curve as the mean of known values, weighted by proximity. That is "
        "attention: the point is the query, the known points are the keys.",
        ("lessons.parts.explainers:kernel_regression",),
        "What is the effect of the kernel width?",
        _kernel,
        (number("width", "Kernel width", 1, 0.1, 5), integer("points", "Known points of the sine", 13, 3, 40)),
    ),
)
