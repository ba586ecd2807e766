"""Sparse attention patterns: key blocks that each query block attends to (Zaheer et al. 2020, figure 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..markup import Markup, element

CELL = 12  # units of a cell, one of them the gap
SEEN, UNSEEN = "#1565c0", "#eeeeee"  # defaults without a style sheet


def block_map(name: str, drawn: str) -> Markup:
    """One pattern as an image with its name. drawn: one line per query block, "#" for attended key blocks."""
    side = _side(drawn)
    summary = f"{name}: {drawn.count('#')} of {side * side} pairs of blocks"
    picture = element(
        "svg", cells(drawn), viewbox=f"0 0 {CELL * side - 1} {CELL * side - 1}", role="img", aria_label=summary
    )
    return element("figure", picture, element("figcaption", name, dir="auto"), class_="map")


def cells(drawn: str) -> Markup:
    """The cells of one pattern, query blocks by key blocks; neighbors in a row are one rectangle."""
    side = _side(drawn) * CELL - 1
    ground = element("rect", width=side, height=side, fill=UNSEEN, class_="unseen")
    runs = [
        element(
            "rect",
            x=CELL * run.start(),
            y=CELL * row,
            width=CELL * len(run.group()) - 1,
            height=CELL - 1,
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
        side = CELL * _side(drawn)
        title = element("text", name, x=side / 2, y=side + 22, fill="#333333", text_anchor="middle")
        parts.append(element("g", cells(drawn), title, transform=f"translate({left} 16)"))
        left += side + 24
    height = 52 + max((CELL * _side(drawn) for drawn in maps.values()), default=0)
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
