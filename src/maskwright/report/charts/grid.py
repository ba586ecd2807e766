"""Matrices of numbers in the colors of the page."""

from __future__ import annotations

from ..drawings import Grid
from ..markup import Attribute, Markup, data_text, element
from ..numbers import MINUS

CELL, LETTER, LINE = 44, 7.4, 30  # units: width of a cell, of a letter, height of a cell
TURNED_FROM = 6  # letters from which column labels are rotated


def grid(block: Grid) -> Markup:
    """The matrix with row and column labels; cells show their value on hover."""
    longest = max((len(name) for name in block.columns), default=0)
    is_turned = longest >= TURNED_FROM
    left = 14 + max((len(name) for name in block.rows), default=0) * LETTER
    top = 14 + longest * LETTER if is_turned else 26
    most = max((abs(value) for row in block.values for value in row if value is not None), default=0.0) or 1.0
    side = CELL if block.digits is not None else LINE
    parts = [_column(name, left + side * (index + 0.5), top - 8, is_turned) for index, name in enumerate(block.columns)]
    for row, name in enumerate(block.rows):
        y = top + LINE * row
        parts.append(data_text(name, "text", class_="label", x=left - 8, y=y + LINE / 2 + 4, text_anchor="end"))
        parts += [
            _cell(block, row, column, left + side * column, y, side, most) for column in range(len(block.columns))
        ]
    width, height = left + side * len(block.columns) + 8, top + LINE * len(block.rows) + 8
    svg = element(
        "svg",
        parts,
        class_="grid-map",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_label=f"{block.caption}: {len(block.rows)} by {len(block.columns)} numbers.",
    )
    caption = element("figcaption", block.caption, dir="auto")
    return element("figure", caption, element("div", svg, class_="wide", tabindex=0, role="group"), class_="drawn")


def _column(name: str, x: float, y: float, is_turned: bool) -> Markup:
    if not is_turned:
        return data_text(name, "text", class_="label", x=x, y=y, text_anchor="middle")
    return data_text(name, "text", class_="label", x=x + 4, y=y, transform=f"rotate(-90 {x + 4:g} {y:g})")


def _cell(block: Grid, row: int, column: int, x: float, y: float, side: float, most: float) -> Markup:
    value = block.values[row][column]
    place = f"{block.rows[row]}, {block.columns[column]}"
    box: dict[str, Attribute] = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{side - 2:g}", "height": LINE - 2, "rx": 3}
    if value is None:
        return element("g", element("rect", class_="hidden", **box), element("title", f"{place}: masked"))
    depth = f"--depth:{abs(value) / most:.3f}"
    square = element("rect", class_="below" if value < 0 else "above-zero", style=depth, **box)
    shown = f"{value:.{4 if block.digits is None else max(block.digits, 2)}f}".replace("-", MINUS)
    title = element("title", f"{place}: {shown}")
    if block.digits is None:
        return element("g", square, title)
    text = f"{value:.{block.digits}f}".replace("-", MINUS)
    number = element("text", text, class_="value", x=f"{x + side / 2 - 1:g}", y=f"{y + LINE / 2 + 3:g}")
    return element("g", square, number, title)
