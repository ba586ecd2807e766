"""Attention as a weighted mean: without parameters, by hand, as a dictionary, as kernel smoothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import FRONTIERS, NEUROCOMPUTING, SESSION, Lesson
from ..own import MATRIX, TEXT, weighted_sum
from ..recorder import difference, tiny

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
SHARES = ((3, 1, 1, 1), (1, 1, 1, 1), (1, 2, 1, 4), (5, 1, 1, 1))  # weights of the hand example, before the sum
VALUES = ((4.0, 0.0, 0.0, 8.0), (0.0, 4.0, 0.0, 8.0), (0.0, 0.0, 4.0, 8.0), (8.0, 8.0, 8.0, 8.0))
BY_HAND = ((20 / 6, 2.0, 2.0, 8.0), (3.0, 3.0, 3.0, 8.0), (4.5, 5.0, 4.5, 8.0), (3.5, 1.5, 1.5, 8.0))


def _basic(record: LessonRecorder) -> None:
    import torch

    from ...nn.attention import self_attention
    from ...report import Grid

    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    first = self_attention(x)[0]
    a = math.e / (2 * math.e + 1)  # x_1 scores 1, 0, 1 against the three tokens
    record.near("z_1 of three tokens, by hand", [2 * a, (1 + math.e) / (2 * math.e + 1)], first)
    words = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    order = [3, 0, 5, 1, 4, 2]
    turned, plain = self_attention(words[order]), self_attention(words)
    gap = difference(turned, plain[order])
    record.same("other order of the tokens", "the same vectors in that order", turned, plain[order])
    record.show(
        Grid(
            ["x₁", "x₂", "x₃"], ["1", "2"], self_attention(x).tolist(), "z = softmax(x xᵀ) x of three tokens", digits=3
        )
    )
    twice = self_attention(torch.cat([words, words]))[:6]
    same = difference(twice, plain)
    record.same("the text repeated twice", "(asked)", twice, plain, said="vectors differ by")
    record.answer(
        "No. Another order, or repeating the whole text, changes no token's vector (by at most "
        f"{tiny(max(gap, same))}). Attention does not encode order, so position embeddings are added."
    )


def _by_hand(record: LessonRecorder) -> None:
    import torch

    from ...nn.attention import fused_scaled_dot_product, scaled_dot_product
    from ...report import Grid

    shares = torch.tensor(SHARES, dtype=torch.float64)
    query, values = torch.eye(4, dtype=torch.float64), torch.tensor(VALUES, dtype=torch.float64)
    key = 2 * shares.log().T  # so that q · k / √4 is the logarithm of a share
    context, weights = scaled_dot_product(query, key, values)
    for row in range(4):
        record.near(f"z_{row + 1}", BY_HAND[row], context[row], digits=3)
    record.near("weights of the first token: 3/6, 1/6, 1/6, 1/6", [1 / 2, 1 / 6, 1 / 6, 1 / 6], weights[0])
    loops = torch.stack([scaled_dot_product(query[i : i + 1], key, values)[0][0] for i in range(4)])
    record.same("all tokens at once, and separately", "equal", loops, context)
    fused = fused_scaled_dot_product(query[None, None], key[None, None], values[None, None])[0, 0]
    record.same("the fused kernel and the formula", "equal", fused, context)
    names = [f"token {row + 1}" for row in range(4)]
    record.show(Grid(names, [str(row + 1) for row in range(4)], weights.tolist(), "Attention pattern", digits=3))
    record.answer(
        f"8 in every row: {', '.join(f'{float(row[3]):.0f}' for row in context)}. The weights sum to 1, so if all "
        "values are equal, the mean is that value for any weights."
    )


def _weighted_sum(record: LessonRecorder) -> None:
    import torch

    from ...nn.attention import scaled_dot_product
    from ...report import Token, Tokens

    characters = list("深度学习")
    vectors = torch.eye(4, dtype=torch.float64)
    query = 80 * (vectors[0] + vectors[1])[None]  # queries 深 and 度 equally
    deep, weights = scaled_dot_product(query, vectors, vectors)
    record.near("weights of 深 度 学 习", [0.5, 0.5, 0.0, 0.0], weights[0], digits=1)
    record.near("Vec(deep) = 0.5·深 + 0.5·度", (0.5 * vectors[0] + 0.5 * vectors[1]).tolist(), deep[0], digits=1)
    row = [
        Token(one, "right" if weight > 0.1 else "", f"{weight:.2f}")
        for one, weight in zip(characters, weights[0].tolist(), strict=True)
    ]
    record.show(Tokens([("deep", row)]))
    mild = scaled_dot_product(query / 80, vectors, vectors)[1][0]
    record.answer(
        f"The weights become {', '.join(f'{one:.2f}' for one in mild.tolist())}: a softmax is never exactly 0. A "
        "weight only vanishes if its score is far below the others."
    )


def _dictionary(record: LessonRecorder) -> None:
    from ...report import Bar, Bars
    from ..parts.lookup import soft_lookup

    telephone = {"jack": 4098, "sape": 4139}
    found = soft_lookup(telephone, "jacky")
    record.equal("tel['jacky']", 4098, round(found.value))
    record.equal("tel['jack']", 4098, round(soft_lookup(telephone, "jack").value))
    record.equal("tel['sap']", 4139, round(soft_lookup(telephone, "sap").value))
    record.near("weights sum to", 1.0, sum(found.weights.values()), digits=2)
    soft = soft_lookup(telephone, "jacky", sharpness=2)
    record.show(
        Bars(
            [Bar(name, weight, f"{weight:.2f}") for name, weight in soft.weights.items()],
            title="Weights for 'jacky', with a low sharpness",
        )
    )
    mean = soft_lookup(telephone, "jacky", sharpness=0).value
    record.near("uniform weights: the mean of the values", 4118.5, mean, digits=1)
    record.answer(
        f"Then every key has the same weight, and the value is the mean, {mean:,.1f}. With sharpness 2 it is "
        f"{soft.value:,.1f}; the sharper the softmax, the more attention resembles a dictionary."
    )


def _kernel(record: LessonRecorder) -> None:
    import torch

    from ...report import Chart, Curves, Series
    from ..parts.kernel import kernel_regression

    two = torch.tensor([0.0, 1.0], dtype=torch.float64)
    values, weights = kernel_regression(two[:1], two, torch.tensor([10.0, 20.0], dtype=torch.float64), 1.0)
    near = 1 / (1 + math.exp(-0.5))
    record.near("weights at distance 0 and 1, width 1", [near, 1 - near], weights[0], digits=6)
    record.near("the weighted mean of 10 and 20", 10 * near + 20 * (1 - near), float(values[0]))
    known = torch.linspace(0, 6, 13, dtype=torch.float64)
    x = torch.linspace(0, 6, 61, dtype=torch.float64)
    lines = {width: kernel_regression(x, known, known.sin(), width)[0] for width in (0.1, 0.5, 3.0)}
    series = [Series(f"width {width}", x.tolist(), line.tolist(), smooth=False) for width, line in lines.items()]
    record.show(Curves([Chart("A sine from 13 of its points", series, x_label="x")], title=""))
    flat, stairs = (
        float(lines[3.0].std()),
        float((lines[0.1] - known.sin()[((x + 0.2499) / 0.5).long()]).abs().median()),
    )
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
        (MATRIX, TEXT),
        weighted_sum,
    ),
    Lesson(
        "soft-dictionary",
        PART,
        NEUROCOMPUTING,
        "Self-attention: a dictionary",
        "A dictionary with approximate keys",
        "A dictionary finds a key or fails. Attention compares the query with every key and returns the mean of the "
        "values, weighted by similarity; a nearly correct key gets nearly all of the weight.",
        ("lessons.parts.lookup:soft_lookup",),
        "What if similarity has no effect?",
        _dictionary,
    ),
    Lesson(
        "kernel-smoothing",
        PART,
        SESSION,
        "Attention: Nadaraya–Watson",
        "Attention is older than neural networks",
        "In 1964 Nadaraya and Watson estimated a curve as the mean of known values, weighted by proximity. That is "
        "attention: the point is the query, the known points are the keys.",
        ("lessons.parts.kernel:kernel_regression",),
        "What is the effect of the kernel width?",
        _kernel,
    ),
)
