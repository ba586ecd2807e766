"""Bar charts, histograms, and dots with whiskers for comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from .. import numbers
from ..content import Bar, Histogram, Score
from ..numbers import Markup, element, join
from .axes import down, drawing, readout, share
from .scales import Scale, labels


def bar_list(bars: Sequence[Bar]) -> Markup:
    """Horizontal bars from zero; the longest fills the width."""
    longest = max((bar.value for bar in bars), default=0.0) or 1.0
    rows = [
        element(
            "li",
            element("span", bar.label, class_="label", dir="auto"),
            track(bar.value / longest),
            element("span", bar.shown or numbers.show(bar.value), class_="amount"),
        )
        for bar in bars
    ]
    return element("ul", rows, class_="bars")


def track(part: float, class_: str = "track") -> Markup:
    """One bar that fills the fraction `part` of its width."""
    return element("span", element("span", style=f"width:{100 * min(max(part, 0.0), 1.0):.1f}%"), class_=class_)


def histogram(block: Histogram) -> Markup:
    """A histogram; marks are vertical lines with a label."""
    x = Scale(float(block.edges[0]), float(block.edges[-1]))
    y = Scale(0.0, max(block.counts) * 1.04)
    total = sum(block.counts)
    bars = []
    for number, amount in enumerate(block.counts):
        low, high = block.edges[number], block.edges[number + 1]
        place = {"x": share(x.place(low)), "width": share(x.place(high) - x.place(low))}
        height = y.place(amount)
        shown = f"{numbers.short(low)} to {numbers.short(high)}"
        bar = element("rect", class_="bar", y=down(height), height=share(height), **place) if amount else None
        strip = element("rect", y=0, height="100%", **place)
        value = readout(shown, element("tspan", f"{numbers.count(amount)} ({numbers.percent(amount / total)})", dx=10))
        bars.append(element("g", bar, strip, value, class_="probe"))
    marks = [_mark(name, x.place(value)) for name, value in block.marks.items() if x.low <= value <= x.high]
    summary = f"{block.title or 'Histogram'}: {numbers.count(total)} in {len(block.counts)} bins."
    label = block.x_label
    picture = drawing(x, y, *bars, *marks, x_label=label, unit="number", summary=summary)
    caption = element("p", block.y_label, class_="above") if block.y_label else None
    return element("div", caption, picture, class_="histogram")


def _mark(name: str, place: float) -> Markup:
    at = share(place)
    side = "left" if place > 0.6 else "right"
    return join(
        element("line", class_="baseline", x1=at, x2=at, y1=0, y2="100%"),
        element("text", name, class_=f"tick mark {side}", x=at, y=0, dy="1em", dx=-6 if side == "left" else 6),
    )


def whisker(score: Score | None, scale: Scale) -> Markup:
    """A dot at the mean, a line of one standard deviation to each side, a tick per run; None: only the axis."""
    parts = [element("line", class_="grid", x1=0, x2="100%", y1=10, y2=10)]
    parts += [_upright(scale.place(tick), "grid", 6, 14) for tick in scale.ticks(4)]
    if score is not None:
        parts += [_upright(scale.place(run), "run", 4, 16) for run in score.runs]
        if score.deviation:
            ends = [share(scale.place(score.mean + sign * score.deviation)) for sign in (-1, 1)]
            parts.append(element("line", class_="whisker", x1=ends[0], x2=ends[1], y1=10, y2=10))
        parts.append(element("circle", class_="mean", cx=share(scale.place(score.mean)), cy=10, r=4.5))
    return element("svg", parts, class_="whiskers", aria_hidden="true")


def whisker_axis(scale: Scale, unit: str) -> Markup:
    """The labels of the axis that `whisker` draws."""
    ticks = scale.ticks(4)
    parts = [
        element("text", name, class_="tick", x=share(scale.place(tick)), y=16)
        for tick, name in zip(ticks, labels(ticks, unit), strict=True)
    ]
    return element("svg", parts, class_="whiskers", aria_hidden="true")


def _upright(place: float, class_: str, top: int, bottom: int) -> Markup:
    return element("line", class_=class_, x1=share(place), x2=share(place), y1=top, y2=bottom)
