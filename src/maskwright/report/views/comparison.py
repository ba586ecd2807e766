"""HTML of comparisons: measured systems first, published ones in a separate group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .. import numbers
from ..charts.bars import whisker, whisker_axis
from ..charts.scales import Scale
from ..findings import Comparison, Dots, Score, System
from ..markup import Markup, data_text, element, join
from .plain import note
from .tables import cell, head_cell, wide

GROUPS = (("Measured here", ("own", "baseline")), ("Published elsewhere, not measured here", ("published",)))


@dataclass(frozen=True)
class _Layout:
    """Layout shared by all rows: columns, axis of the dots (or None), and the best measured means."""

    block: Comparison
    metrics: list[str]
    scale: Scale | None
    best: dict[str, float]
    has_seeds: bool


def comparison(block: Comparison) -> Markup:
    """A table of systems; the first metric is also drawn as dots with whiskers."""
    metrics = list(block.metrics) or list(dict.fromkeys(name for row in block.systems for name in row.scores))
    layout = _Layout(
        block,
        metrics,
        _scale(block, metrics[0]) if metrics else None,
        {name: mean for name in metrics if (mean := _best(block, name)) is not None},
        any(row.seeds for row in block.systems),
    )
    columns = list(_head(layout))
    bodies = []
    for name, sources in GROUPS:
        rows = [row for row in block.systems if row.source in sources]
        if not rows:
            continue
        label = element("th", name, colspan=len(columns), scope="rowgroup")
        is_one = len(rows) == len(block.systems)
        group = None if is_one and name == GROUPS[0][0] else element("tr", label, class_="group")
        bodies.append(element("tbody", group, [element("tr", _row(layout, row)) for row in rows]))
    table = element("table", element("thead", element("tr", columns)), bodies, class_="systems")
    return join(wide(table), note(block.note))


def dots(block: Dots) -> Markup:
    """A row per score: name, dot plot with single runs, and number."""
    finite = {name: score for name, score in block.rows.items() if math.isfinite(score.mean)}
    scale = _room([end for score in finite.values() for end in _ends(score)]) if finite else None
    axis = element("th", whisker_axis(scale, block.unit), scope="col", class_="picture") if scale else None
    rows = [
        element(
            "tr",
            element("th", element("span", name, dir="auto"), scope="row"),
            element("td", whisker(finite.get(name), scale), class_="picture own") if scale else None,
            cell(numbers.plus_minus(score.mean, score.deviation, block.unit), True),
        )
        for name, score in block.rows.items()
    ]
    head = element("tr", head_cell(""), axis, head_cell("Score", True))
    return join(
        wide(element("table", element("thead", head), element("tbody", rows), class_="systems")), note(block.note)
    )


def _head(layout: _Layout) -> Iterator[Markup]:
    yield head_cell("System")
    if layout.scale:
        axis = whisker_axis(layout.scale, layout.block.unit)
        yield element("th", axis, scope="col", class_="picture", aria_label=layout.metrics[0])
    for name in layout.metrics:
        yield head_cell(name, True)
    if layout.has_seeds:
        yield head_cell("Seeds", True)


def _row(layout: _Layout, row: System) -> Iterator[Markup]:
    kind = element("span", "simpler method", class_="tag") if row.source == "baseline" else None
    about = data_text(row.note, class_="tag") if row.note else None
    yield element("th", element("span", row.name, dir="auto"), kind, about, scope="row")
    if layout.scale:
        score = _score(row, layout.metrics[0])
        yield element("td", whisker(score, layout.scale), class_=f"picture {row.source}")
    for name in layout.metrics:
        yield _shown(layout, row, name)
    if layout.has_seeds:
        yield cell(numbers.show(row.seeds), True)


def _shown(layout: _Layout, row: System, metric: str) -> Markup:
    value = row.scores.get(metric)
    if isinstance(value, str):
        return cell(value, True)
    score = _score(row, metric)
    if score is None:
        return cell(numbers.MISSING, True)
    text = numbers.plus_minus(score.mean, score.deviation, layout.block.unit)
    is_best = row.source != "published" and score.mean == layout.best.get(metric)
    return element("td", element("strong", text) if is_best else text, class_="number")


def _score(row: System, metric: str) -> Score | None:
    """The score as a `Score`; None if it is missing, text or NaN."""
    value = row.scores.get(metric)
    if value is None or isinstance(value, str):
        return None
    score = value if isinstance(value, Score) else Score(float(value))
    return score if math.isfinite(score.mean) else None


def _scale(block: Comparison, metric: str) -> Scale | None:
    """An axis for all means, deviations and runs of `metric`; None with fewer than two systems."""
    scores = [score for row in block.systems if (score := _score(row, metric)) is not None]
    if len(scores) < 2:
        return None
    return _room([end for score in scores for end in _ends(score)])


def _ends(score: Score) -> list[float]:
    """All axis values of a score."""
    return [score.mean - (score.deviation or 0.0), score.mean + (score.deviation or 0.0), *score.runs]


def _room(ends: Sequence[float]) -> Scale:
    """An axis that contains all values with a margin."""
    room = 0.08 * (max(ends) - min(ends)) or 0.05
    return Scale(min(ends) - room, max(ends) + room)


def _best(block: Comparison, metric: str) -> float | None:
    """The best measured mean; None with only one measured system."""
    means = [score.mean for row in block.systems if row.source != "published" and (score := _score(row, metric))]
    return (max if block.higher_is_better else min)(means) if len(means) > 1 else None
