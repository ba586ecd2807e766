"""Alignments: a map of words that were read (columns) by words that were written (rows), shaded by attention.

The colours are those of the page, with their light ones as they stand in a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..findings import AlignmentMap
from ..markup import Markup, data_text, element

CELL, SMALL_CELL, GAP = 30, 20, 2  # units: side of a cell, the same of long texts, between cells
SMALL_FROM = 30  # words of a side
LETTER, NAME_LETTERS = 7.0, 24  # units of a letter; letters of a word that are shown
TITLE, EDGE = 30, 14
TILT = 50  # degrees by which the words above lean
INK, SOFT, SHADE, WASH, PAPER = (
    f"fill:var(--{name},{colour})"
    for name, colour in (
        ("ink", "#1b1e22"), ("soft", "#5a6068"), ("s0", "#225ea8"), ("wash", "#f4f2ec"), ("paper", "#fefdfa"),
    )
)  # fmt: skip


def alignment_map(found: AlignmentMap) -> Markup:
    """One map as a picture of its own, as wide as its words ask for."""
    drawn, width, height = _drawn(found)
    return _picture([drawn], width, height, _summary(found), style="display:block")


def alignment_sheet(found: Sequence[AlignmentMap]) -> Markup:
    """Several, one below the other, with their captions: what a file holds."""
    parts, top, widest = [], 0.0, 0.0
    for one in found:
        drawn, width, height = _drawn(one)
        name = data_text(one.caption, "text", x=EDGE, y=20, style=INK, font_weight="600")
        parts.append(element("g", name, element("g", drawn, transform=f"translate(0 {TITLE})"),
                             transform=f"translate(0 {top:.0f})"))  # fmt: skip
        widest = max(widest, width, 2 * EDGE + LETTER * len(one.caption))
        top += height + TITLE + EDGE
    paper = element("rect", width=f"{widest:.0f}", height=f"{top:.0f}", style=PAPER)
    return _picture([paper, *parts], widest, top, "; ".join(_summary(one) for one in found))


def _drawn(found: AlignmentMap) -> tuple[Markup, float, float]:
    """The map at the origin, and how wide and high it is."""
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
    beside = [
        data_text(word, "text", x=left - 10, y=top + side * (place + 0.5) + 4, text_anchor="end")
        for place, word in enumerate(rows)
    ]
    cells = [
        _cell(left + side * column, top + side * row, side - GAP, value, found.columns[column], found.rows[row])
        for row, values in enumerate(found.matrix)
        for column, value in enumerate(values)
    ]
    height = top + side * len(rows) + EDGE
    return element("g", element("g", above, beside, style=INK), element("g", cells, style=SHADE)), width, height


def _cell(x: float, y: float, side: float, value: float, read: str, written: str) -> Markup:
    box = {"x": x, "y": y, "width": side, "height": side, "rx": 2}
    under = element("rect", style=WASH, **box)
    shade = element("rect", fill_opacity=f"{value:.3f}", **box)
    return element("g", element("title", f"{written} ← {read}: {value:.3f}"), under, shade)


def _picture(parts: Sequence[Markup], width: float, height: float, summary: str, style: str | None = None) -> Markup:
    return element(
        "svg",
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        font_family="system-ui, sans-serif",
        font_size=13,
        style=style,
        role="img",
        aria_label=summary,
    )


def _summary(found: AlignmentMap) -> str:
    """Which word each written word looks at most."""
    pairs = [
        f"{word} at {found.columns[max(range(len(values)), key=lambda place: values[place])]}"
        for word, values in zip(found.rows, found.matrix, strict=True)
    ]
    return f"Attention: {', '.join(pairs)}"


def _short(word: str) -> str:
    return word if len(word) <= NAME_LETTERS else word[: NAME_LETTERS - 1] + "…"
