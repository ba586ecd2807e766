"""Alignment maps: source words (columns) by target words (rows), shaded by attention weight.

The colors are those of the page; a standalone file includes them, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..findings import AlignmentMap
from ..markup import Markup, data_text, element

CELL, SMALL_CELL, GAP = 30, 20, 2  # units: side of a cell, the same of long texts, between cells
SMALL_FROM = 30  # words of a side
LETTER, BOLD_LETTER = 7.0, 8.5  # units of a letter
NAME_LETTERS = 24  # letters of a word that are shown
TITLE, EDGE = 30, 14
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
        parts.append(element("g", name, element("g", drawn, transform=f"translate(0 {TITLE})"),
                             transform=f"translate(0 {top:.0f})"))  # fmt: skip
        widest = max(widest, width, 2 * EDGE + BOLD_LETTER * len(one.caption))
        top += height + TITLE + EDGE
    paper = element("rect", class_="paper", width=f"{widest:.0f}", height=f"{top:.0f}")
    return _picture(
        [element("style", Markup(OWN_COLORS)), paper, *parts], widest, top, "; ".join(_summary(one) for one in found)
    )


def _drawn(found: AlignmentMap) -> tuple[Markup, float, float]:
    """The map at the origin, its width and its height."""
    columns, rows = ([_short(word) for word in words] for words in (found.columns, found.rows))
    side = SMALL_CELL if max(len(columns), len(rows)) >= SMALL_FROM else CELL
    lean = math.radians(TILT)
    left = EDGE + LETTER * max(map(len, rows), default=0) + 10
    top = EDGE + LETTER * max(map(len, columns), default=0) * math.sin(lean) + 12
    over = LETTER * max((len(word) - 1.2 * place for place, word in enumerate(reversed(columns))), default=0.0)
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
        _cell(left + side * column, top + side * row, side - GAP, value, found.columns[column], found.rows[row])
        for row, values in enumerate(found.matrix)
        for column, value in enumerate(values)
    ]
    height = top + side * len(rows) + EDGE
    return element("g", above, left_labels, cells), width, height


def _cell(x: float, y: float, side: float, value: float, source: str, target: str) -> Markup:
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
    return word if len(word) <= NAME_LETTERS else word[: NAME_LETTERS - 1] + "…"
