"""Charts of a report: what the script of the page draws; without it each is a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ..core.util import plural
from . import EMPTY, Block, Unit, note_of, numbers
from .numbers import Markup, data_text, element, json_text

COLORS = 6


@dataclass(frozen=True)
class Series:
    """One line of a chart. x and y have the same length; None in y means not measured; values that are not finite are
    skipped and counted below the chart.

    Series with the same name are seeds of the same experiment: they share a color, and their mean is drawn on top.
    smooth: draw a smoothed line over the raw one; default: depends on the number of points.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    smooth: bool | None = None

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], name: str, key: str) -> Series:
        """The values that records of a run have under `key`, by step."""
        found = [record for record in records if key in record]
        return cls(name, [record["step"] for record in found], [record[key] for record in found])

    def points(self, is_log: bool = False) -> tuple[np.ndarray, int]:
        """Finite points in ascending x, float64 [points, 2], and how many others there are."""
        measured = [(x, y) for x, y in zip(self.x, self.y, strict=True) if y is not None]
        points = np.array(measured, dtype=np.float64).reshape(-1, 2)
        fine = np.isfinite(points).all(axis=1) & ((points[:, 1] > 0) | (not is_log))
        kept = points[fine]
        return kept[np.argsort(kept[:, 0], kind="stable")], int((~fine).sum())


def thinned(points: np.ndarray, limit: int = 1500) -> np.ndarray:
    """About `limit` of the points, [points, 2]: the lowest and highest of each segment, so that spikes stay."""
    if len(points) <= limit:
        return points
    kept = {0, len(points) - 1}
    for segment in np.array_split(np.arange(len(points)), limit // 2):
        values = points[segment, 1]
        kept |= {int(segment[values.argmin()]), int(segment[values.argmax()])}
    return points[sorted(kept)]


@dataclass(frozen=True)
class Chart:
    """A line chart.

    x_label: unit of x ("step", "tokens"); baselines: label -> value, drawn as dashed lines; unit: "percent" shows
    fractions as percentages; log_y: logarithmic y axis, which skips values that are not positive; note: text below it.
    """

    title: str
    series: Sequence[Series]
    x_label: str = "step"
    unit: Unit = "number"
    baselines: Mapping[str, float] = field(default_factory=dict)
    log_y: bool = False
    note: str = ""

    def html(self) -> Markup:
        """Title, legend with last values, picture and note; EMPTY without a measured point."""
        if not any(value is not None for one in self.series for value in one.y):
            return EMPTY
        show = numbers.percent if self.unit == "percent" else numbers.show
        found = [(one, *one.points(self.log_y)) for one in self.series]
        drawn = [(one, points) for one, points, _ in found if len(points)]
        entries: list[Markup] = []
        told: list[str] = []
        for name in dict.fromkeys(one.name for one, _ in drawn):
            own = [points for one, points in drawn if one.name == name]
            first, last = (show(fmean(float(points[end, 1]) for points in own)) for end in (0, -1))
            shown = f"{name}, mean of {len(own)} seeds" if len(own) > 1 else name
            entries.append(_entry(f"key key{len(entries) % COLORS}", shown, last))
            told.append(f"{shown} from {first} to {last}")
        entries += [_entry("key baseline", name, show(float(value))) for name, value in self.baselines.items()]
        note, dropped = self.note, sum(lost for _, _, lost in found)
        if dropped:
            what = "finite and positive" if self.log_y else "finite"
            note = f"{note} Without {plural(dropped, 'value that is', 'values that are')} not {what}.".strip()
        picture = _drawn(
            "lines",
            f"{self.title} by {self.x_label}: {'; '.join(told)}.",
            series=[
                {"name": one.name, "smooth": one.smooth, "points": thinned(points).tolist()} for one, points in drawn
            ],
            baselines=[value for value in self.baselines.values() if math.isfinite(value)],
            options={"unit": self.x_label, "isPercent": self.unit == "percent", "isLog": self.log_y},
        )
        caption = element("figcaption", element("strong", self.title), dir="auto")
        legend = element("ul", entries, class_="legend")
        return element("figure", caption, *([legend, picture] if drawn else []), note_of(note), class_="chart")


def _entry(class_: str, name: str, value: str = "") -> Markup:
    """An entry of a legend."""
    last = element("span", value, class_="last") if value else None
    return element("li", element("span", class_=class_, aria_hidden="true"), data_text(name), last)


def _drawn(kind: str, summary: str, **data: Any) -> Markup:
    """The place of a chart: the script replaces the sentence by a picture of `data`."""
    content = element("script", Markup(json_text(data)), type="application/json")
    return element("div", element("p", summary, class_="note", dir="auto"), content, class_="canvas", data_chart=kind)


@dataclass(frozen=True)
class Curves(Block):
    """Charts side by side, two per row on wide pages; those without a measured point are omitted."""

    charts: Sequence[Chart]
    title: str = field(default="Curves", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        charts = [shown for one in self.charts if (shown := one.html())]
        return element("div", charts, class_="charts") if charts else EMPTY


@dataclass(frozen=True)
class Histogram(Block):
    """A histogram: `len(edges) == len(counts) + 1`, edges ascending.

    marks: labeled vertical lines ("max_length": 128).
    """

    edges: Sequence[float]
    counts: Sequence[int]
    x_label: str = ""
    y_label: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)

    def html(self, level: int = 2) -> Markup:
        summary = f"{self.title or 'Histogram'}: {numbers.count(sum(self.counts))} in {len(self.counts)} bins."
        edges, counts = [float(edge) for edge in self.edges], [int(count) for count in self.counts]
        picture = _drawn("histogram", summary, edges=edges, counts=counts, x=self.x_label, marks=dict(self.marks))
        caption = element("figcaption", self.y_label) if self.y_label else None
        return element("figure", caption, picture, class_="chart") if any(counts) else EMPTY


@dataclass(frozen=True)
class Scatter(Block):
    """A scatter plot, colored by group. places: (x, y) of each point; groups: group number of each point, from 0;
    texts: tooltips; names: names of the groups.
    """

    places: Sequence[tuple[float, float]]
    groups: Sequence[int]
    texts: Sequence[str]
    names: Sequence[str]
    caption: str

    def html(self, level: int = 2) -> Markup:
        points = [
            {"x": x, "y": y, "color": group, "hint": f"{group + 1}: {text[:200]}"}
            for (x, y), group, text in zip(self.places, self.groups, self.texts, strict=True)
        ]
        summary = f"{self.caption}: {len(points)} points in {len(set(self.groups))} groups."
        names = [_entry(f"key key{group % COLORS}", f"{group + 1} {name}") for group, name in enumerate(self.names)]
        caption = element("figcaption", self.caption, dir="auto")
        legend = element("ul", names, class_="legend")
        return element("figure", caption, _drawn("scatter", summary, points=points), legend) if points else EMPTY


@dataclass(frozen=True)
class Box:
    """A box of a flow chart. text: its content; column, row: position from 0, can be fractional; is_strong: drawn in
    the accent color.
    """

    text: str
    column: float
    row: float
    is_strong: bool = False


@dataclass(frozen=True)
class Arrow:
    """An arrow between two boxes, by their indices. label: next to its middle."""

    start: int
    end: int
    label: str = ""


@dataclass(frozen=True)
class Flow(Block):
    """A flow chart of boxes and arrows. caption: description, also for screen readers."""

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    caption: str

    def html(self, level: int = 2) -> Markup:
        summary = f"{self.caption}: {', '.join(one.text for one in self.boxes)}."
        picture = _drawn("flow", summary, boxes=[*map(asdict, self.boxes)], arrows=[*map(asdict, self.arrows)])
        return element("figure", element("figcaption", self.caption, dir="auto"), picture) if self.boxes else EMPTY
