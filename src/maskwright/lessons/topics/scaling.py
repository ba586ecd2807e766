"""The division of attention scores by the square root of head_dim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import Matrix, integer, matrix, text, words_of
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
HI = ((27.0, 89.0, 31.0, 67.0), (10.0, 31.0, 91.0, 54.0), (12.0, 67.0, 54.0, 92.0))  # "how", "are", "you"
SCORES = 1e6  # largest score
OWN_SAMPLES = 10_000  # with your own d: an answer at once
BY_HAND = (-1.0, 4.25, -2.0, 17.25, 36.0)  # for means 1 and -2, variances 4 and 0.25, c = 3


def _why(record: LessonRecorder, head_dim: int) -> None:
    from ...report import Table
    from ..parts.scaling import SAMPLES, identities, moments, sampled_scores

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
    for rule, by_hand in zip(() if record.is_own else identities(), () if record.is_own else BY_HAND, strict=True):
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
    import torch

    from ...report import Grid, Table
    from ..parts.scaling import attention_weights, entropy

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


def _saturation(record: LessonRecorder, matrix: Matrix, text: str, head_dim: int) -> None:
    import torch

    from ...report import Chart, Curves, Series
    from ..parts.scaling import attention_weights, saturation

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
        (integer("head_dim", "Head dimension d", 256, 1, 256),),
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
        (
            integer("head_dim", "Head dimension d", 64, 1, 1024),
            matrix("matrix", "Scores, one row per query", HI, -SCORES, SCORES),
            text("text", "Words of the columns", "Hi how are you", 0),
        ),
    ),
)
