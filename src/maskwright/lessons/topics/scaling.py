"""The division of attention scores by the square root of head_dim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson
from ..own import MATRIX, TEXT, inspect_scores

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
HI = ((27.0, 89.0, 31.0, 67.0), (10.0, 31.0, 91.0, 54.0), (12.0, 67.0, 54.0, 92.0))  # "how", "are", "you"
WORDS = ("Hi", "how", "are", "you")
HEAD_DIM = 64
BY_HAND = (-1.0, 4.25, -2.0, 17.25, 36.0)  # for means 1 and -2, variances 4 and 0.25, c = 3


def _why(record: LessonRecorder) -> None:
    from ...report import Table
    from ..parts.scaling import identities, moments, sampled_scores

    rows = []
    for head_dim in (3, 16, 64, 256):
        scores = sampled_scores(head_dim)
        found = moments(scores)
        sure = abs(found.mean) <= 3 * found.standard_error and abs(found.variance / head_dim - 1) <= 0.02
        record.holds(
            f"E(z), Var(z) for d = {head_dim}",
            f"0, {head_dim}",
            f"{found.mean:.3f}, {found.variance:.2f}".replace("-", "\N{MINUS SIGN}"),
            sure,
        )
        scaled = moments(scores / math.sqrt(head_dim))
        rows.append((head_dim, round(found.mean, 3), round(found.variance, 2), round(scaled.variance, 3)))
    record.near("Var(z / √d), d = 256", 1.0, rows[-1][3], 0.02, digits=2)
    for rule, by_hand in zip(identities(), BY_HAND, strict=True):
        record.near(rule.rule, by_hand, rule.sampled, 0.03 * max(abs(by_hand), 1.0), digits=2)
        record.near("by the formula", by_hand, rule.formula, digits=2)
    columns = ["d", "mean of z", "variance of z", "variance of z / √d"]
    record.show(Table(columns, rows, title="100,000 random queries and keys", right=columns))
    record.answer(
        f"Division by d would make the variance 1 / d, {rows[-1][2] / 256**2:.4f} for d = 256, and all weights nearly "
        "equal. The variance of cX is c² times that of X, so √d reduces the variance from d to 1."
    )


def _saturation(record: LessonRecorder) -> None:
    import torch

    from ...report import Chart, Curves, Grid, Series
    from ..parts.scaling import attention_weights, saturation

    scores = torch.tensor(HI)
    plain, scaled = attention_weights(scores), attention_weights(scores, HEAD_DIM)
    record.holds(
        "rows of 'Hi how are you' unscaled",
        "one-hot",
        ", ".join(f"{row.max():.4f}" for row in plain),
        bool((plain.max(dim=1).values > 0.9999).all()),
        "the first row is omitted: the slide has a z instead of its first score",
    )
    shares = [math.exp(score / math.sqrt(HEAD_DIM)) for score in HI[0]]
    by_hand = [share / sum(shares) for share in shares]
    record.near("'how': exp(z / √64) of 27 89 31 67, divided by their sum", by_hand, scaled[0])
    record.show(
        Grid(WORDS[1:], WORDS, plain.tolist(), "Weights without the scale"),
        Grid(WORDS[1:], WORDS, scaled.tolist(), "Weights after division by √64"),
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
    record.show(Curves(charts, title=""))
    record.answer(
        f"Hardly: at d = 256, the gradient of the unscaled softmax is {found[-1].slope / found[-1].scaled_slope:.0%} "
        "of the scaled one. A head that saturates early cannot be corrected."
    )


LESSONS = (
    Lesson(
        "why-scale",
        PART,
        APPLICATIONS,
        "Why Scale QKᵀ?",
        "The variance of a score grows with the width",
        "A score is a sum of d products. If the components of q and k are independent, with mean 0 and variance 1, "
        "the score has mean 0 and variance d. Divided by √d, its variance is 1 for any width.",
        ("lessons.parts.scaling:sampled_scores", "lessons.parts.scaling:moments", "lessons.parts.scaling:identities"),
        "Why √d and not d?",
        _why,
    ),
    Lesson(
        "saturation",
        PART,
        APPLICATIONS,
        "Why Scaling factor is √d",
        "A softmax of large scores saturates",
        "Widely spread scores make the softmax one-hot. It is then saturated: changes of the scores hardly change the "
        "weights, and the gradient vanishes.",
        ("lessons.parts.scaling:attention_weights", "lessons.parts.scaling:saturation"),
        "Can a saturated head still learn?",
        _saturation,
        (MATRIX, TEXT),
        inspect_scores,
    ),
)
