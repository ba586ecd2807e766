"""Matrices as image files: .svg, or .png with resvg."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from ..core import storage
from ..core.errors import ConfigError, MissingExtraError
from . import Grid
from .numbers import MINUS, Markup, data_text, element

ENDINGS = (".svg", ".png", ".html")
ZOOM = 2  # pixels of a PNG for each unit of the drawing
MOST_PIXELS = 1 << 26  # larger images are not enlarged
CELL, SMALL_CELL, SMALL_FROM = 44, 18, 24  # units of a cell, of one without its number, rows from which cells are small
LETTER, NAME_LETTERS, EDGE = 6.8, 64, 14
ABOVE, BELOW = (34, 94, 168), (187, 74, 8)  # colors of the largest and the lowest value


def check_picture(path: Path) -> None:
    """Raises ConfigError for an unknown file extension, MissingExtraError for a .png without resvg."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(f"{path} has an unknown ending: images are written as .svg, .png or .html.")
    if ending == ".png" and importlib.util.find_spec("resvg_py") is None:
        raise MissingExtraError("Writing PNG", "plot")


def write_picture(path: Path, grids: Sequence[Grid]) -> None:
    """Writes the matrices, one below the other, in the format of the extension of `path`: .svg, or .png."""
    svg = drawing(grids)
    if path.suffix.lower() == ".png":
        storage.write_bytes(path, to_png(svg))
    else:
        storage.write_text(path, svg + "\n")


def drawing(grids: Sequence[Grid]) -> Markup:
    """The matrices as a standalone SVG, in light colors."""
    parts, top, width = [], 0.0, 0.0
    for grid in grids:
        drawn, wide, high = _drawn(grid)
        parts.append(element("g", drawn, transform=f"translate(0 {top:.0f})"))
        top, width = top + high, max(width, wide)
    paper = element("rect", width=f"{width:.0f}", height=f"{top:.0f}", fill="#ffffff")
    return element(
        "svg", paper, parts, xmlns="http://www.w3.org/2000/svg", viewbox=f"0 0 {width:.0f} {top:.0f}",
        font_family="system-ui, sans-serif", font_size=12, role="img",
        aria_label="; ".join(one.caption for one in grids),
    )  # fmt: skip


def _drawn(grid: Grid) -> tuple[list[Markup], float, float]:
    """The parts of a matrix at the origin, its width and its height."""
    rows, columns = ([_short(name) for name in names] for names in (grid.rows, grid.columns))
    is_small = grid.digits is None or len(rows) >= SMALL_FROM
    side = SMALL_CELL if is_small else CELL
    is_turned = max(map(len, columns), default=0) * LETTER > side
    left = EDGE + LETTER * max(map(len, rows), default=0) + 8
    top = 34 + (LETTER * max(map(len, columns), default=0) if is_turned else 14)
    parts = [data_text(grid.caption, "text", x=EDGE, y=20, fill="#222222", font_weight=600)]
    for place, name in enumerate(columns):
        x, y = left + side * (place + 0.5), top - 8
        turn = {"transform": f"rotate(-90 {x + 4:g} {y:g})"} if is_turned else {"text_anchor": "middle"}
        parts.append(data_text(name, "text", x=x + 4 * is_turned, y=y, fill="#555555", **turn))
    for row, name in enumerate(rows):
        y = top + side * row
        parts.append(data_text(name, "text", x=left - 8, y=y + side / 2 + 4, text_anchor="end", fill="#222222"))
        for column, value in enumerate(grid.values[row]):
            if value is not None:
                title = f"{grid.rows[row]}, {grid.columns[column]}"
                parts.append(
                    _cell(left + side * column, y, side, value, grid.depth(value), title, has_text=not is_small)
                )
    widest = max(left + side * len(columns), LETTER * 1.1 * len(grid.caption))
    return parts, widest + EDGE, top + side * len(rows) + EDGE


def _cell(x: float, y: float, side: int, value: float, share: float, place: str, *, has_text: bool) -> Markup:
    color = [round(255 + (ink - 255) * abs(share)) for ink in (ABOVE if share >= 0 else BELOW)]
    fill = "#{:02x}{:02x}{:02x}".format(*color)
    title = element("title", f"{place}: {value:.3f}")
    square = element("rect", title, x=x, y=y, width=side - 2, height=side - 2, fill=fill)
    if not has_text:
        return square
    ink = "#ffffff" if abs(share) > 0.55 else "#222222"
    text = f"{value:.2f}".replace("-", MINUS)
    number = element("text", text, x=x + side / 2 - 1, y=y + side / 2 + 3, text_anchor="middle", fill=ink)
    return element("g", square, number)


def _short(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…"


def to_png(svg: str) -> bytes:
    """Renders an SVG with a viewBox as PNG, `ZOOM` pixels per unit."""
    from resvg_py import svg_to_bytes

    sizes = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert sizes is not None
    zoom = ZOOM if ZOOM**2 * float(sizes[1]) * float(sizes[2]) <= MOST_PIXELS else 1
    font = "DejaVu Sans"  # system-ui, the first font of the images, only exists in browsers
    return bytes(
        svg_to_bytes(svg_string=svg, background="#ffffff", zoom=zoom, font_family=font, sans_serif_family=font)
    )
