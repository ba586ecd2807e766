"""Matrices as SVG: heat maps, alignments, attention patterns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..content import AlignmentMap, Grid
from ..numbers import MINUS, Attribute, Markup, data_text, element

# -- Matrices of numbers in the colors of the page -------------------------------------------------------------------


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


# -- Heat maps of square matrices, such as cosine similarities between texts, as standalone SVG images ---------------


HEAT_CELL, TITLE, HEAT_TEXT = 46, 22, 6.6  # units: side of a cell, height above, width of a letter
NAME_LETTERS = 64
SMALL_FROM = 24  # rows from which cells are small and show no number
WARM, COLD, PAPER = (187, 74, 8), (34, 94, 168), (255, 255, 255)  # below 0, above 0, at the low end


def heat_map(names: Sequence[str], labels: Sequence[str], matrix: Sequence[Sequence[float]], title: str) -> Markup:
    """The matrix with `labels` above and `names` at the left.

    names: text of each row; labels: short label of each column; matrix: [rows, rows]. Shades range from the lowest
    value (rounded down to a tenth) to the highest; negative values have a warm color.
    """
    count, is_small = len(names), len(names) >= SMALL_FROM
    side = HEAT_CELL / 3 if is_small else HEAT_CELL
    shown = [name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…" for name in names]
    left = 12 + max((len(f"{label}  {name}") for label, name in zip(labels, shown, strict=True)), default=0) * HEAT_TEXT
    low, high = span_of(matrix)
    parts = []
    for row in range(count):
        top = TITLE + 16 + side * row
        name = f"{labels[row]}  {shown[row]}"
        parts.append(data_text(name, "text", x=left - 8, y=top + side / 2 + 4, text_anchor="end", fill="#222222"))
        parts += [_heat_cell(left + side * column, top, side, matrix[row][column], low, high, is_small)
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


def _heat_cell(x: float, y: float, side: float, value: float, low: float, high: float, is_small: bool) -> Markup:
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


# -- Alignment maps: source words (columns) by target words (rows), shaded by attention weight -----------------------
#
# The colors are those of the page; a standalone file includes them, light and dark.


ALIGN_CELL, SMALL_CELL, GAP = 30, 20, 2  # units: side of a cell, the same of long texts, between cells
ALIGN_SMALL_FROM = 30  # words of a side
ALIGN_LETTER, BOLD_LETTER = 7.0, 8.5  # units of a letter
ALIGN_NAME_LETTERS = 24  # letters of a word that are shown
ALIGN_TITLE, EDGE = 30, 14
TILT = 50  # rotation of the column labels in degrees
OWN_COLORS = """
.paper { fill: #fefdfa } .alignment text { fill: #1b1e22 } .under { fill: #f4f2ec } .shade { fill: #225ea8 }
@media (prefers-color-scheme: dark) {
.paper { fill: #15181b } .alignment text { fill: #e7e5df } .under { fill: #1e2226 } .shade { fill: #86b6ec }
}
"""


def alignment_map(found: AlignmentMap) -> Markup:
    """One map as an SVG image, as wide as its words require."""
    drawn, width, height = _drawn(found)
    return _picture([drawn], width, height, _summary(found))


def alignment_sheet(found: Sequence[AlignmentMap]) -> Markup:
    """Several maps with captions, one below the other, as a standalone SVG file."""
    parts, top, widest = [], 0.0, 0.0
    for one in found:
        drawn, width, height = _drawn(one)
        name = data_text(one.caption, "text", x=EDGE, y=20, font_weight="600")
        parts.append(element("g", name, element("g", drawn, transform=f"translate(0 {ALIGN_TITLE})"),
                             transform=f"translate(0 {top:.0f})"))  # fmt: skip
        widest = max(widest, width, 2 * EDGE + BOLD_LETTER * len(one.caption))
        top += height + ALIGN_TITLE + EDGE
    paper = element("rect", class_="paper", width=f"{widest:.0f}", height=f"{top:.0f}")
    return _picture(
        [element("style", Markup(OWN_COLORS)), paper, *parts], widest, top, "; ".join(_summary(one) for one in found)
    )


def _drawn(found: AlignmentMap) -> tuple[Markup, float, float]:
    """The map at the origin, its width and its height."""
    columns, rows = ([_short(word) for word in words] for words in (found.columns, found.rows))
    side = SMALL_CELL if max(len(columns), len(rows)) >= ALIGN_SMALL_FROM else ALIGN_CELL
    lean = math.radians(TILT)
    left = EDGE + ALIGN_LETTER * max(map(len, rows), default=0) + 10
    top = EDGE + ALIGN_LETTER * max(map(len, columns), default=0) * math.sin(lean) + 12
    over = ALIGN_LETTER * max((len(word) - 1.2 * place for place, word in enumerate(reversed(columns))), default=0.0)
    width = left + side * len(columns) + max(over * math.cos(lean), 0.0) + EDGE
    above = [
        data_text(
            word, "text", transform=f"translate({left + side * (place + 0.55):.1f} {top - 8:.1f}) rotate({-TILT})"
        )
        for place, word in enumerate(columns)
    ]
    left_labels = [
        data_text(word, "text", x=left - 10, y=top + side * (place + 0.5) + 4, text_anchor="end")
        for place, word in enumerate(rows)
    ]
    cells = [
        _align_cell(left + side * column, top + side * row, side - GAP, value, found.columns[column], found.rows[row])
        for row, values in enumerate(found.matrix)
        for column, value in enumerate(values)
    ]
    height = top + side * len(rows) + EDGE
    return element("g", above, left_labels, cells), width, height


def _align_cell(x: float, y: float, side: float, value: float, source: str, target: str) -> Markup:
    box = {"x": x, "y": y, "width": side, "height": side, "rx": 2}
    under = element("rect", class_="under", **box)
    shade = element("rect", class_="shade", fill_opacity=f"{value:.3f}", **box)
    return element("g", element("title", f"{target} ← {source}: {value:.3f}"), under, shade)


def _picture(parts: Sequence[Markup], width: float, height: float, summary: str) -> Markup:
    return element(
        "svg",
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        font_family="system-ui, sans-serif",
        font_size=13,
        class_="alignment",
        role="img",
        aria_label=summary,
    )


def _summary(found: AlignmentMap) -> str:
    """The most attended source word of each target word, as text."""
    pairs = [
        f"{word} at {found.columns[max(range(len(values)), key=lambda place: values[place])]}"
        for word, values in zip(found.rows, found.matrix, strict=True)
    ]
    return f"Attention: {', '.join(pairs)}"


def _short(word: str) -> str:
    return word if len(word) <= ALIGN_NAME_LETTERS else word[: ALIGN_NAME_LETTERS - 1] + "…"


# -- Sparse attention patterns: key blocks that each query block attends to (Zaheer et al. 2020, figure 1) -----------


MAP_CELL = 12  # units of a cell, one of them the gap
SEEN, UNSEEN = "#1565c0", "#eeeeee"  # defaults without a style sheet


def block_map(name: str, drawn: str) -> Markup:
    """One pattern as an image with its name. drawn: one line per query block, "#" for attended key blocks."""
    side = _side(drawn)
    summary = f"{name}: {drawn.count('#')} of {side * side} pairs of blocks"
    picture = element(
        "svg", cells(drawn), viewbox=f"0 0 {MAP_CELL * side - 1} {MAP_CELL * side - 1}", role="img", aria_label=summary
    )
    return element("figure", picture, element("figcaption", name, dir="auto"), class_="map")


def cells(drawn: str) -> Markup:
    """The cells of one pattern, query blocks by key blocks; neighbors in a row are one rectangle."""
    side = _side(drawn) * MAP_CELL - 1
    ground = element("rect", width=side, height=side, fill=UNSEEN, class_="unseen")
    runs = [
        element(
            "rect",
            x=MAP_CELL * run.start(),
            y=MAP_CELL * row,
            width=MAP_CELL * len(run.group()) - 1,
            height=MAP_CELL - 1,
            fill=SEEN,
            class_="seen",
        )
        for row, line in enumerate(drawn.split("\n"))
        for run in re.finditer("#+", line)
    ]
    return element("g", ground, runs)


def picture(maps: Mapping[str, str]) -> Markup:
    """Several patterns side by side as one SVG file. maps: name -> result of `BlockPattern.draw`."""
    parts, left = [], 20
    for name, drawn in maps.items():
        side = MAP_CELL * _side(drawn)
        title = element("text", name, x=side / 2, y=side + 22, fill="#333333", text_anchor="middle")
        parts.append(element("g", cells(drawn), title, transform=f"translate({left} 16)"))
        left += side + 24
    height = 52 + max((MAP_CELL * _side(drawn) for drawn in maps.values()), default=0)
    paper = element("rect", width=left, height=height, fill="#ffffff")
    return element(
        "svg",
        paper,
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {left} {height}",
        width=left,
        font_family="system-ui, sans-serif",
        font_size=12,
    )


def _side(drawn: str) -> int:
    """Number of blocks per side."""
    return drawn.count("\n") + 1
