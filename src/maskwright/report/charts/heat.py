"""Heat maps of square matrices, such as cosine similarities between texts, as standalone SVG images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..markup import Markup, data_text, element

CELL, TITLE, LETTER = 46, 22, 6.6  # units: side of a cell, height above, width of a letter
NAME_LETTERS = 64
SMALL_FROM = 24  # rows from which cells are small and show no number
WARM, COLD, PAPER = (187, 74, 8), (34, 94, 168), (255, 255, 255)  # below 0, above 0, at the low end


def heat_map(names: Sequence[str], labels: Sequence[str], matrix: Sequence[Sequence[float]], title: str) -> Markup:
    """The matrix with `labels` above and `names` at the left.

    names: text of each row; labels: short label of each column; matrix: [rows, rows]. Shades range from the lowest
    value (rounded down to a tenth) to the highest; negative values have a warm color.
    """
    count, is_small = len(names), len(names) >= SMALL_FROM
    side = CELL / 3 if is_small else CELL
    shown = [name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…" for name in names]
    left = 12 + max((len(f"{label}  {name}") for label, name in zip(labels, shown, strict=True)), default=0) * LETTER
    low, high = span_of(matrix)
    parts = []
    for row in range(count):
        top = TITLE + 16 + side * row
        name = f"{labels[row]}  {shown[row]}"
        parts.append(data_text(name, "text", x=left - 8, y=top + side / 2 + 4, text_anchor="end", fill="#222222"))
        parts += [_cell(left + side * column, top, side, matrix[row][column], low, high, is_small)
                  for column in range(count)]  # fmt: skip
    if not is_small:
        parts += [
            element("text", label, x=left + side * (index + 0.5), y=TITLE + 10, text_anchor="middle", fill="#555555")
            for index, label in enumerate(labels)
        ]
    width, height = left + side * count + 12, TITLE + side * count + 44
    legend = f"{low:.1f} (pale) to {high:.2f} (dark)"
    return element(
        "svg",
        element("rect", width=width, height=height, fill="#ffffff"),
        data_text(title, "text", x=12, y=16, fill="#222222", font_weight="600"),
        parts,
        element("text", legend, x=left, y=height - 10, fill="#555555"),
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width:.0f} {height:.0f}",
        style=f"width:{width:.0f}px;max-width:100%;height:auto",
        font_family="system-ui, sans-serif",
        font_size=12,
        role="img",
        aria_label=f"{title}: a matrix of {count} by {count} numbers from {low:.2f} to {high:.2f}",
    )


def span_of(matrix: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The lowest value, rounded down to a tenth, and the highest."""
    values = [value for row in matrix for value in row]
    low, high = math.floor(min(values) * 10 + 1e-9) / 10, max(values)
    return (low, high) if high > low else (low - 0.1, high)


def _cell(x: float, y: float, side: float, value: float, low: float, high: float, is_small: bool) -> Markup:
    depth = (value - low) / (high - low) if value >= 0 else value / min(low, -1e-9)
    color = COLD if value >= 0 else WARM
    mixed = [round(paper + (ink - paper) * depth) for paper, ink in zip(PAPER, color, strict=True)]
    gap = 1 if is_small else 2
    square = element(
        "rect", x=x, y=y, width=side - gap, height=side - gap, fill=f"#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x}"
    )
    if is_small:
        return element("g", square, element("title", f"{value:.3f}"))
    ink = "#ffffff" if depth > 0.55 else "#222222"
    number = element("text", f"{value:.2f}", x=x + side / 2 - 1, y=y + side / 2 + 3, text_anchor="middle", fill=ink)
    return element("g", square, number)
