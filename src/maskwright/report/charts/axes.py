"""Code shared by charts: axes, stretched paths, strips that show values on hover."""

from __future__ import annotations

from collections.abc import Sequence

from ..markup import Markup, element, join
from .scales import Scale, labels
from .traces import Line

SPAN = 1000  # units of a stretched path, in both directions


def share(place: float) -> str:
    """A position from 0 to 1 as a percentage coordinate."""
    return f"{100 * place:.2f}".rstrip("0").rstrip(".") + "%"


def down(place: float) -> str:
    """As `share` for heights, which SVG measures from the top."""
    return share(1 - place)


def drawing(
    x: Scale, y: Scale, *parts: Markup, x_label: str, unit: str, summary: str, is_whole: bool = False
) -> Markup:
    """A chart with axes, grid and `parts`.

    summary: text for screen readers; is_whole: whether x has only integer ticks.
    """
    y_ticks = y.ticks(5)
    x_ticks = [tick for tick in x.ticks(5) if tick == int(tick) or not is_whole]
    y_names, x_names = labels(y_ticks, unit, y.is_log), labels(x_ticks)
    grid = [
        join(
            element("line", class_="grid", x1=0, x2="100%", y1=down(y.place(tick)), y2=down(y.place(tick))),
            element("text", name, class_="tick left", x=-8, y=down(y.place(tick)), dy=".32em"),
        )
        for tick, name in zip(y_ticks, y_names, strict=True)
    ]
    bottom = [
        element("text", name, class_="tick", x=share(x.place(tick)), y="100%", dy="1.5em")
        for tick, name in zip(x_ticks, x_names, strict=True)
    ]
    axis = element("line", class_="axis", x1=0, x2="100%", y1="100%", y2="100%")
    label = element("text", x_label, class_="tick name", x="50%", y="100%", dy="3.1em") if x_label else None
    room = min(max((len(name) for name in y_names), default=1), 9)
    return element(
        "div",
        element("svg", grid, bottom, axis, label, parts, role="img", aria_label=summary),
        class_=f"plot room-{room}",
    )


def stretched(*parts: Markup) -> Markup:
    """A layer in which 0 to SPAN fills the chart; strokes keep their width (see style.css)."""
    return element("svg", parts, class_="stretch", viewbox=f"0 0 {SPAN} {SPAN}", preserveaspectratio="none")


def path(line: Line, x: Scale, y: Scale, class_: str) -> Markup:
    """A line through all points, for a stretched layer."""
    points = " ".join(
        f"{SPAN * x.place(a):.1f},{SPAN * (1 - y.place(b)):.1f}" for a, b in zip(line.x, line.y, strict=True)
    )
    return element("polyline", class_=class_, points=points)


def probes(places: Sequence[float], contents: Sequence[Markup]) -> list[Markup]:
    """Invisible strips, one around each position (ascending, 0 to 1), that show their content on hover."""
    strips = []
    for number, (place, content) in enumerate(zip(places, contents, strict=True)):
        left = (places[number - 1] + place) / 2 if number else 0.0
        right = (place + places[number + 1]) / 2 if number + 1 < len(places) else 1.0
        strip = element("rect", x=share(left), y=0, width=share(right - left), height="100%")
        strips.append(element("g", strip, content, class_="probe"))
    return strips


def readout(*parts: Markup | str) -> Markup:
    """The line of values above the chart, shown on hover."""
    return element("text", parts, class_="readout", x="100%", y=0, dy="-9")
