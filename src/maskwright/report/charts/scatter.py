"""Scatter plots, such as texts by embedding: one color and number per group, texts on hover."""

from __future__ import annotations

from collections.abc import Sequence

from ..markup import Markup, clean, data_text, element

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
