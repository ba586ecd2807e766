"""Code shared by charts: axes, stretched paths, strips that show values on hover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..content import Series
from ..numbers import Markup, element, join
from .scales import Scale, labels

# -- Converts series to lines: filters finite points, smooths, averages seeds ----------------------------------------


SMOOTH_FROM = 40  # points; shorter lines are not smoothed
KERNEL_SHARE = 32  # standard deviation of the smoothing kernel: points / KERNEL_SHARE
MAX_SMOOTHED = 2000  # longer lines are averaged to this many points before smoothing
MAX_POINTS = 500  # charts are a few hundred pixels wide


@dataclass(frozen=True)
class Line:
    """Points in ascending x: float64 [points] each."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Trace:
    """The lines of one name: the main line, and thin background lines (raw values or single seeds)."""

    name: str
    main: Line
    background: tuple[Line, ...]
    seeds: int


def traces(series: Sequence[Series], is_log: bool = False) -> tuple[list[Trace], int]:
    """One trace per name in order of appearance, and the number of skipped values that are not finite."""
    by_name: dict[str, list[tuple[Line, bool | None]]] = {}
    dropped = 0
    for one in series:
        line, lost = _finite(one, is_log)
        dropped += lost
        if len(line.x):
            by_name.setdefault(one.name, []).append((line, one.smooth))
    return [_trace(name, lines, is_log) for name, lines in by_name.items()], dropped


def downsample(line: Line, limit: int = MAX_POINTS) -> Line:
    """Downsamples to about `limit` points; keeps the minimum and maximum of each segment, so that spikes stay."""
    if len(line.x) <= limit:
        return line
    kept = {0, len(line.x) - 1}
    for segment in np.array_split(np.arange(len(line.x)), limit // 2):
        values = line.y[segment]
        kept |= {int(segment[values.argmin()]), int(segment[values.argmax()])}
    order = np.array(sorted(kept))
    return Line(line.x[order], line.y[order])


def smooth(line: Line) -> Line:
    """Local linear regression with Gaussian weights over the index of the points (not over x).

    Unlike a moving average it is not biased at the ends (Fan and Gijbels 1996, chapter 3). Long lines are first
    averaged over segments much shorter than the kernel.
    """
    line = _averaged(line)
    points = len(line.y)
    deviation = max(points / KERNEL_SHARE, 1.0)
    reach = min(int(3.5 * deviation), points - 1)
    offsets = np.arange(-reach, reach + 1)
    weight = np.exp(-0.5 * (offsets / deviation) ** 2)

    def moment(values: np.ndarray, power: int) -> np.ndarray:
        """Sum over neighbors of weight * offset**power * value: [points]."""
        kernel = (weight * offsets**power)[::-1]
        return np.convolve(values, kernel, mode="full")[reach : reach + points]

    ones = np.ones(points)
    sizes = [moment(ones, power) for power in range(3)]
    heights = [moment(line.y, power) for power in range(2)]
    return Line(line.x, (sizes[2] * heights[0] - sizes[1] * heights[1]) / (sizes[0] * sizes[2] - sizes[1] ** 2))


def _smoothed(line: Line, is_log: bool) -> Line:
    """Smooths the values, or their logarithms on a logarithmic axis."""
    if not is_log:
        return smooth(line)
    flat = smooth(Line(line.x, np.log(line.y)))
    return Line(flat.x, np.exp(flat.y))


def _averaged(line: Line) -> Line:
    if len(line.x) <= MAX_SMOOTHED:
        return line
    starts = np.linspace(0, len(line.x), MAX_SMOOTHED, endpoint=False).astype(int)
    sizes = np.diff(np.append(starts, len(line.x)))
    return Line(np.add.reduceat(line.x, starts) / sizes, np.add.reduceat(line.y, starts) / sizes)


def _trace(name: str, lines: list[tuple[Line, bool | None]], is_log: bool) -> Trace:
    drawn = []
    background: list[Line] = []
    for line, wanted in lines:
        is_smooth = len(line.x) >= SMOOTH_FROM if wanted is None else wanted and len(line.x) > 2
        drawn.append(_smoothed(line, is_log) if is_smooth else line)
        if is_smooth and len(lines) == 1:
            background.append(line)
    if len(drawn) == 1:
        return Trace(name, drawn[0], tuple(background), 1)
    return Trace(name, _mean(drawn), tuple(drawn), len(drawn))


def _mean(lines: list[Line]) -> Line:
    """The mean of several lines where all are defined, at the x values of the line with the most points."""
    low, high = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
    longest = max(lines, key=lambda line: len(line.x))
    x = longest.x[(longest.x >= low) & (longest.x <= high)]
    if not len(x):
        return longest
    return Line(x, np.mean([np.interp(x, line.x, line.y) for line in lines], axis=0))


def _finite(series: Series, is_log: bool) -> tuple[Line, int]:
    measured = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
    points = np.array(measured, dtype=np.float64).reshape(-1, 2)
    fine = np.isfinite(points).all(axis=1)
    if is_log:
        fine &= points[:, 1] > 0
    kept = points[fine]
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    return Line(kept[:, 0], kept[:, 1]), int((~fine).sum())


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
