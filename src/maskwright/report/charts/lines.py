"""Line charts: scores over steps, with baselines, smoothed lines over raw ones, and seeds with their mean."""

from __future__ import annotations

import numpy as np

from .. import numbers
from ..content import Chart
from ..numbers import Markup, element, join
from .axes import Trace, down, downsample, drawing, path, probes, readout, share, stretched, traces
from .scales import Scale, data_scale, exact_scale

PROBES = 40
ROWS = 16  # of the table of values
DOTS_TO = 24  # lines with at most this many points show them as dots
COLORS = 6


def line_chart(chart: Chart) -> Markup:
    """The chart with title, legend and table of values; only title and note if no value is finite."""
    drawn, dropped = traces(chart.series, chart.log_y)
    note = _note(chart, dropped)
    title = element("figcaption", element("strong", chart.title))
    if not drawn:
        return element("figure", title, note, class_="chart")
    x = exact_scale([float(value) for trace in drawn for value in trace.main.x])
    y = _height(chart, drawn)
    return element(
        "figure",
        title,
        _legend(chart, drawn),
        _picture(chart, drawn, x, y),
        note,
        _values(chart, drawn),
        class_="chart",
    )


def _height(chart: Chart, drawn: list[Trace]) -> Scale:
    values = [float(value) for trace in drawn for line in (trace.main, *trace.background) for value in line.y]
    baselines = [value for value in chart.baselines.values() if np.isfinite(value) and (value > 0 or not chart.log_y)]
    scale = data_scale(values + baselines, from_zero=True, is_log=chart.log_y)
    if chart.unit == "percent" and not chart.log_y and min(values) >= 0 and max(values) <= 1:
        return Scale(max(scale.low, 0.0), min(scale.high, 1.0))
    return scale


def _picture(chart: Chart, drawn: list[Trace], x: Scale, y: Scale) -> Markup:
    behind = [
        path(downsample(line), x, y, f"raw {_color(number)}")
        for number, trace in enumerate(drawn)
        for line in trace.background
    ]
    mains = [path(downsample(trace.main), x, y, _stroke(number, trace)) for number, trace in enumerate(drawn)]
    dots = [
        element("circle", class_=f"dot {_color(number)}", cx=share(x.place(a)), cy=down(y.place(b)), r=3)
        for number, trace in enumerate(drawn)
        if _is_dotted(trace)
        for a, b in zip(trace.main.x, trace.main.y, strict=True)
    ]
    baselines = [
        element("line", class_="baseline", x1=0, x2="100%", y1=down(y.place(value)), y2=down(y.place(value)))
        for value in chart.baselines.values()
        if y.low <= value <= y.high
    ]
    parts = (stretched(*behind, *mains), *baselines, *dots, *_probes(chart, drawn, x, y))
    is_whole = all(bool((trace.main.x == trace.main.x.round()).all()) for trace in drawn)
    summary = _summary(chart, drawn)
    return drawing(x, y, *parts, x_label=chart.x_label, unit=chart.unit, summary=summary, is_whole=is_whole)


def _legend(chart: Chart, drawn: list[Trace]) -> Markup:
    entries = []
    for number, trace in enumerate(drawn):
        name = f"{trace.name}, mean of {trace.seeds} seeds" if trace.seeds > 1 else trace.name
        last = element("span", _shown(chart, float(trace.main.y[-1])), class_="last")
        entries.append(
            element("li", _key(_stroke(number, trace), _is_dotted(trace)), element("span", name, dir="auto"), last)
        )
    for name, value in chart.baselines.items():
        last = element("span", _shown(chart, value), class_="last")
        entries.append(element("li", _key("baseline"), element("span", name, dir="auto"), last))
    return element("ul", entries, class_="legend")


def _key(class_: str, has_dot: bool = False) -> Markup:
    line = element("line", class_=class_, x1=1, x2=23, y1=5, y2=5)
    dot = element("circle", class_=f"dot {class_.rsplit(maxsplit=1)[-1]}", cx=12, cy=5, r=3) if has_dot else None
    return element("svg", line, dot, class_="key", width=24, height=10, aria_hidden="true")


def _probes(chart: Chart, drawn: list[Trace], x: Scale, y: Scale) -> list[Markup]:
    values = _samples(drawn, PROBES)
    contents = []
    for value in values:
        at = share(x.place(value))
        shown: list[Markup | str] = [f"{chart.x_label} {numbers.short(value)}"]
        marks = [element("line", class_="rule", x1=at, x2=at, y1=0, y2="100%")]
        for number, height in _heights(drawn, value):
            marks.append(element("circle", class_=f"dot {_color(number)}", cx=at, cy=down(y.place(height)), r=4))
            shown.append(element("tspan", _shown(chart, height), class_=_color(number), dx=10))
        contents.append(join(marks, readout(*shown)))
    return probes([x.place(value) for value in values], contents)


def _values(chart: Chart, drawn: list[Trace]) -> Markup:
    """The values as a table, for screen readers and print."""
    names = (chart.x_label, *(trace.name for trace in drawn))
    head = element("tr", [element("th", name, scope="col", dir="auto") for name in names])
    rows = []
    for value in _samples(drawn, ROWS):
        found = dict(_heights(drawn, value))
        cells = [numbers.count(round(value)) if value == round(value) else numbers.show(value)]
        cells += [_shown(chart, found[number]) if number in found else "" for number in range(len(drawn))]
        rows.append(element("tr", [element("td", cell, class_="number") for cell in cells]))
    table = element("table", element("thead", head), element("tbody", rows))
    return element("details", element("summary", "Values"), element("div", table, class_="wide"), class_="values")


def _samples(drawn: list[Trace], limit: int) -> list[float]:
    """Up to `limit` measured x values, evenly spaced by index."""
    places = np.unique(np.concatenate([trace.main.x for trace in drawn]))
    chosen = np.unique(np.linspace(0, len(places) - 1, min(limit, len(places))).round().astype(int))
    return [float(places[index]) for index in chosen]


def _heights(drawn: list[Trace], value: float) -> list[tuple[int, float]]:
    """Index and y value of each line that is defined at `value`."""
    return [
        (number, float(np.interp(value, trace.main.x, trace.main.y)))
        for number, trace in enumerate(drawn)
        if trace.main.x[0] <= value <= trace.main.x[-1]
    ]


def _summary(chart: Chart, drawn: list[Trace]) -> str:
    ends = [(_shown(chart, float(trace.main.y[0])), _shown(chart, float(trace.main.y[-1]))) for trace in drawn]
    parts = [f"{trace.name} from {first} to {last}" for trace, (first, last) in zip(drawn, ends, strict=True)]
    return f"{chart.title} by {chart.x_label}: {'; '.join(parts)}."


def _note(chart: Chart, dropped: int) -> Markup | None:
    parts: list[str] = [chart.note] if chart.note else []
    if dropped:
        what = "finite and positive" if chart.log_y else "finite"
        noun = "value that is" if dropped == 1 else "values that are"
        parts.append(f"Without {numbers.count(dropped)} {noun} not {what}.")
    return element("p", " ".join(parts), class_="note", dir="auto") if parts else None


def _shown(chart: Chart, value: float) -> str:
    return numbers.percent(value) if chart.unit == "percent" else numbers.show(float(value))


def _color(number: int) -> str:
    return f"s{number % COLORS}"


def _stroke(number: int, trace: Trace) -> str:
    """Lines are distinguished by dots or dashes, not both."""
    return f"main {'solid ' if _is_dotted(trace) else ''}{_color(number)}"


def _is_dotted(trace: Trace) -> bool:
    return len(trace.main.x) <= DOTS_TO
