"""Renders a report as HTML: `render` is a pure function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from .. import __version__
from . import numbers
from .charts.alignment import alignment_map
from .charts.heat import heat_map
from .charts.lines import line_chart
from .charts.maps import block_map
from .charts.scatter import scatter
from .content import (
    Bars,
    Block,
    Facts,
    Health,
    Histogram,
    KeyFigures,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Section,
    Table,
)
from .drawings import Collapsible, Flow, Grid, SourceCode, Tokens
from .findings import (
    AlignmentMap,
    Checkpoints,
    ColoredText,
    Comparison,
    Confusion,
    Curves,
    Dots,
    HeatMap,
    MaskExamples,
    Scatter,
    SeenBlocks,
    Weights,
    WorstErrors,
)
from .markup import Markup, clean, data_text, element, escape, join
from .views import answers, comparison, drawn, plain, tables

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
LEVELS = {"good": "Healthy", "watch": "Worth a look", "bad": "Not healthy"}
SIGNS = {"good": "●", "watch": "▲", "bad": "■"}

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%23225ea8'/%3E%3Cpath d='M3 11h3M10 11h3' stroke='white' "
    "stroke-width='2'/%3E%3Crect x='6' y='5' width='4' height='7' fill='%23f0b429'/%3E%3C/svg%3E"
)


def render(report: Report) -> str:
    """Renders the whole page as HTML from `report` and the style sheet of the package.

    Raises TypeError for an unknown block type.
    """
    blocks = [block for block in report.blocks if not block.is_empty()]
    anchors = _anchors([block.title for block in blocks])
    contents = [(block.title, anchor) for block, anchor in zip(blocks, anchors, strict=True) if block.title]
    parts = [_block(block, anchor, 2) for block, anchor in zip(blocks, anchors, strict=True)]
    body = element(
        "body",
        element("div", _header(report), _contents(contents), element("main", parts), class_="page"),
        _footer(report),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", report.title),
        element("link", rel="icon", href=ICON),
        element("style", _style()),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


@cache
def _style() -> Markup:
    return Markup(resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8"))


def _header(report: Report) -> Markup:
    made = element("span", report.made, class_="made") if report.made else None
    return element(
        "header",
        element("p", data_text(report.title, class_="name"), made, class_="over"),
        element("h1", _headline(report.headline), dir="auto"),
        _health(report.health) if report.health else None,
    )


def _headline(text: str) -> list[Markup]:
    """The headline; short hyphenated words (TF-IDF) are not broken."""
    words = re.split(r"(\s+)", numbers.keep_together(text))
    return [
        element("span", word, class_="together") if "-" in word and len(word) < 16 else escape(word) for word in words
    ]


def _health(health: Health) -> Markup:
    sign = element("span", SIGNS[health.level], class_="sign", aria_hidden="true")
    reasons = [data_text(numbers.keep_together(reason), "li") for reason in health.reasons]
    return element(
        "div",
        element("p", sign, data_text(health.word or LEVELS[health.level]), class_="level"),
        element("ul", reasons) if reasons else None,
        class_=f"health {health.level}",
    )


def _contents(contents: Sequence[tuple[str, str]]) -> Markup | None:
    if len(contents) < 3:
        return None
    links = [element("li", element("a", title, href=f"#{anchor}", dir="auto")) for title, anchor in contents]
    return element("nav", element("ol", links), aria_label="Contents")


def _footer(report: Report) -> Markup:
    return element("footer", element("p", f"Written by Maskwright {report.version or __version__}."))


def _block(block: Block, anchor: str, level: int) -> Markup:
    """A block with its heading; blocks of a Section are one heading level deeper."""
    heading = element(f"h{min(level, 4)}", block.title, dir="auto") if block.title else None
    if isinstance(block, Collapsible):
        return _folded(block, anchor, level)
    if isinstance(block, Section):
        inside = [one for one in block.blocks if not one.is_empty()]
        anchors = [f"{anchor}-{name}" for name in _anchors([one.title for one in inside])]
        lead = data_text(block.lead, "p", class_="lead") if block.lead else None
        parts = [_block(one, name, level + 1) for one, name in zip(inside, anchors, strict=True)]
        return element("section", heading, lead, parts, id=anchor, class_="section")
    if type(block) not in VIEWS:
        raise TypeError(f"A report cannot contain a {type(block).__name__}: it is not a known block type.")
    kind = type(block).__name__.lower()
    return element("section", heading, VIEWS[type(block)](block), id=anchor, class_=f"block of-{kind}")


def _folded(block: Collapsible, anchor: str, level: int) -> Markup:
    """A sentence, and blocks that unfold on click."""
    heading = element(f"h{min(level, 4)}", block.title, dir="auto") if block.title else None
    inside = [_block(one, f"{anchor}-{number}", level + 1) for number, one in enumerate(block.blocks, 1)]
    details = element("details", element("summary", block.summary), element("div", inside), class_="folded")
    return element("section", heading, data_text(block.lead, "p"), details, id=anchor, class_="block of-folded")


def _curves(block: Curves) -> Markup:
    charts = [line_chart(chart) for chart in block.charts if not chart.is_empty()]
    return join(element("div", charts, class_="charts"), plain.note(block.note))


def _maps(block: SeenBlocks) -> Markup:
    maps = [block_map(name, drawn) for name, drawn in block.maps.items()]
    return join(element("div", maps, class_="maps"), plain.note(block.note))


def _heat(block: HeatMap) -> Markup:
    return join(heat_map(block.names, block.labels, block.matrix, block.caption), plain.note(block.note))


def _alignment(block: AlignmentMap) -> Markup:
    picture = element("div", alignment_map(block), class_="wide")
    return join(picture, data_text(block.caption, "p", class_="note"), plain.note(block.note))


def _scatter(block: Scatter) -> Markup:
    picture = scatter(block.places, block.groups, block.texts, block.names, block.caption)
    return join(picture, plain.note(block.note))


def _anchors(titles: Sequence[str]) -> list[str]:
    """A unique HTML id for each title, from its ASCII letters and digits."""
    found: list[str] = []
    for number, title in enumerate(titles, 1):
        name = re.sub(r"[^a-z0-9]+", "-", clean(title).lower()).strip("-") or f"part-{number}"
        found.append(name if name not in found else f"{name}-{number}")
    return found


VIEWS: dict[type, Callable[[Any], Markup]] = {
    Bars: plain.bars,
    Checkpoints: tables.checkpoints,
    ColoredText: plain.colored_text,
    Comparison: comparison.comparison,
    Dots: comparison.dots,
    Confusion: answers.confusion,
    Curves: _curves,
    Facts: plain.facts,
    Flow: drawn.flow,
    Grid: drawn.grid,
    HeatMap: _heat,
    AlignmentMap: _alignment,
    Histogram: plain.histogram,
    KeyFigures: plain.key_figures,
    MaskExamples: answers.mask_examples,
    NextSteps: plain.next_steps,
    Paragraph: plain.paragraph,
    Scatter: _scatter,
    SeenBlocks: _maps,
    SourceCode: drawn.source_code,
    Table: tables.table,
    Tokens: drawn.tokens,
    Weights: tables.weights,
    RunMetadata: plain.what_ran,
    WorstErrors: answers.worst_errors,
}
