"""Scatter plots, such as texts by embedding: one color and number per group, texts on hover."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..content import Arrow, Box, Flow
from ..numbers import Markup, clean, data_text, element, join

WIDTH, HEIGHT, EDGE, LINE = 720, 460, 24, 18
COLORS = ("#225ea8", "#bb4a08", "#16735f", "#7a4ba0", "#806000", "#5a6068", "#b0265f", "#3f7f1d", "#0b7285", "#9c4221")
NAME_LETTERS = 80


def scatter(
    places: Sequence[tuple[float, float]],
    groups: Sequence[int],
    texts: Sequence[str],
    names: Sequence[str],
    title: str,
) -> Markup:
    """A scatter plot with a legend. places: (x, y) of each point; groups: its group, from 0; names: of the groups.

    The number of each group is drawn at the center of its points, so that color is not the only cue.
    """
    xs, ys = [place[0] for place in places], [place[1] for place in places]
    spread_x, spread_y = (max(max(values) - min(values), 1e-9) for values in (xs, ys))
    at = [
        (
            EDGE + (x - min(xs)) / spread_x * (WIDTH - 2 * EDGE),
            LINE + EDGE + (max(ys) - y) / spread_y * (HEIGHT - 2 * EDGE),
        )
        for x, y in zip(xs, ys, strict=True)
    ]
    dots = [
        element(
            "circle",
            element("title", f"{group + 1}: {clean(text)[:200]}"),
            cx=round(x, 1),
            cy=round(y, 1),
            r=3.5 if len(at) < 1000 else 2,
            class_=_class(group),
            fill=_color(group),
            fill_opacity=0.65,
        )
        for (x, y), group, text in zip(at, groups, texts, strict=True)
    ]
    height = LINE + HEIGHT + LINE * len(names) + 12
    return element(
        "svg",
        element("rect", class_="ground", width=WIDTH, height=height, fill="#ffffff"),
        data_text(title, "text", class_="words", x=12, y=16, fill="#222222", font_weight="600"),
        dots,
        [_number(at, groups, group) for group in sorted(set(groups))],
        [_legend(group, name) for group, name in enumerate(names)],
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {WIDTH} {height}",
        style=f"width:{WIDTH}px;max-width:100%;height:auto",
        font_family="system-ui, sans-serif",
        font_size=12,
        role="img",
        class_="scatter",
        aria_label=f"{title}: {len(at)} points in {len(set(groups))} groups",
    )


def _number(at: Sequence[tuple[float, float]], groups: Sequence[int], group: int) -> Markup:
    own = [place for place, other in zip(at, groups, strict=True) if other == group]
    x, y = (sum(place[axis] for place in own) / len(own) for axis in (0, 1))
    return element(
        "text", str(group + 1), x=round(x, 1), y=round(y + 6, 1), text_anchor="middle", font_size=18, font_weight="700",
        class_=f"center {_class(group)}", fill=_color(group), stroke="#ffffff", stroke_width=4, paint_order="stroke",
    )  # fmt: skip


def _legend(group: int, name: str) -> Markup:
    y = LINE + HEIGHT + LINE * (group + 0.5)
    shown = name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…"
    return element(
        "g",
        element("circle", class_=_class(group), cx=18, cy=y - 4, r=5, fill=_color(group)),
        data_text(f"{group + 1}  {shown}", "text", class_="words", x=30, y=y, fill="#222222"),
    )


def _class(group: int) -> str:
    """The class that gives the color in a report, where dark mode has lighter ones; a saved file is always light."""
    return f"p{group % len(COLORS)}"


def _color(group: int) -> str:
    return COLORS[group % len(COLORS)]


# -- Flow charts: boxes with arrows, in the colors of the page -------------------------------------------------------


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
