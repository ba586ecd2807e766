"""Flow charts: boxes with arrows, in the colors of the page."""

from __future__ import annotations

import math

from ..drawings import Arrow, Box, Flow
from ..markup import Markup, data_text, element, join

WIDE, HIGH = 168, 76  # units: from one column to the next, from one row to the next
LETTER, BOX_HIGH = 7.6, 36
HEAD = 7  # length of an arrow's head


def flow(block: Flow) -> Markup:
    """The flow chart at full width, in a box that scrolls on narrow pages."""
    right = max(_center(box)[0] + _width(box) / 2 for box in block.boxes) + 4
    rows = max(box.row for box in block.boxes) + 1
    parts = [
        *(_arrow(block.boxes[arrow.start], block.boxes[arrow.end], arrow) for arrow in block.arrows),
        *map(_box, block.boxes),
    ]
    svg = element(
        "svg", parts, class_="flow", width=f"{right:.0f}", height=f"{rows * HIGH:.0f}", role="img",
        aria_label=block.caption,
    )  # fmt: skip
    caption = element("figcaption", block.caption, dir="auto")
    return element("figure", caption, element("div", svg, class_="wide", tabindex=0, role="group"), class_="drawn")


def _center(box: Box) -> tuple[float, float]:
    return (box.column + 0.5) * WIDE, (box.row + 0.5) * HIGH


def _width(box: Box) -> float:
    return max(len(box.text) * LETTER + 24, 72)


def _box(box: Box) -> Markup:
    x, y = _center(box)
    wide = _width(box)
    frame = element(
        "rect", x=f"{x - wide / 2:g}", y=f"{y - BOX_HIGH / 2:g}", width=f"{wide:g}", height=BOX_HIGH, rx=6,
        class_="frame strong" if box.is_strong else "frame",
    )  # fmt: skip
    return join(frame, data_text(box.text, "text", class_="word", x=f"{x:g}", y=f"{y + 5:g}"))


def _edge(box: Box, towards: tuple[float, float]) -> tuple[float, float]:
    """The point where a line from the center of a box crosses its edge."""
    x, y = _center(box)
    across, down = towards[0] - x, towards[1] - y
    reach = min(
        (_width(box) / 2 + 3) / abs(across) if across else math.inf,
        (BOX_HIGH / 2 + 3) / abs(down) if down else math.inf,
    )
    return x + across * reach, y + down * reach


def _arrow(start: Box, end: Box, arrow: Arrow) -> Markup:
    (x1, y1), (x2, y2) = _edge(start, _center(end)), _edge(end, _center(start))
    turn = math.atan2(y2 - y1, x2 - x1)
    wings = [(x2 - HEAD * math.cos(turn + side), y2 - HEAD * math.sin(turn + side)) for side in (-0.45, 0.45)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((x2, y2), *wings))
    label = None
    if arrow.label:
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        is_level = abs(y2 - y1) < 4
        place = {"x": f"{x if is_level else x + 8:.1f}", "y": f"{y - 7 if is_level else y - 3:.1f}"}
        label = data_text(arrow.label, "text", class_="label", text_anchor="middle" if is_level else None, **place)
    line = element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_="line")
    return join(line, element("polygon", points=points, class_="tip"), label)
