"""HTML of general blocks: paragraphs, key figures, facts, run metadata, bars, commands."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .. import numbers
from ..charts.bars import bar_list
from ..charts.bars import histogram as histogram_chart
from ..content import Bars, Facts, Histogram, KeyFigures, NextSteps, Paragraph, RunMetadata, Value
from ..findings import ColoredText
from ..markup import Markup, data_text, element, join

SHADES = 4  # of each color; style.css has as many
UNBROKEN = 30  # characters that fit in a line on a phone


def note(text: str) -> Markup | None:
    """A note below a block."""
    return data_text(numbers.keep_together(text), "p", class_="note") if text else None


def paragraph(block: Paragraph) -> Markup:
    """Running text."""
    return data_text(numbers.keep_together(block.text), "p")


def key_figures(block: KeyFigures) -> Markup:
    """Large numbers with labels and notes."""
    figures = [
        element(
            "div",
            element("dt", figure.label, dir="auto"),
            element(
                "dd",
                element("span", _numeral(numbers.show(figure.value)), class_="numeral"),
                element("span", f" {figure.unit}", class_="unit") if figure.unit else None,
            ),
            element("dd", numbers.keep_together(figure.note), class_="remark", dir="auto") if figure.note else None,
        )
        for figure in block.figures
    ]
    return element("dl", figures, class_="figures")


def facts(block: Facts) -> Markup:
    """Names and values as a list."""
    return join(_list(block.facts), note(block.note))


def what_ran(block: RunMetadata) -> Markup:
    """The command, then settings and environment as dense lists."""
    lists = [
        element("div", element("p", name, class_="subhead"), _list(values), class_="dense")
        for name, values in (("Settings", block.settings), ("Where and when", block.environment))
        if values
    ]
    return join(_command(block.command) if block.command else None, lists)


def bars(block: Bars) -> Markup:
    """Horizontal bars."""
    return join(bar_list(block.bars), note(block.note))


def histogram(block: Histogram) -> Markup:
    """Upright bars over a number line."""
    return join(histogram_chart(block), note(block.note))


def colored_text(block: ColoredText) -> Markup:
    """Text parts with background colors, in SHADES steps on either side of 0."""
    parts = [element("span", text, class_=_shade(value)) for text, value in block.parts]
    key = element(
        "p",
        element("span", block.low, class_=_shade(-1.0)),
        " to ",
        element("span", block.high, class_=_shade(1.0)),
        class_="note",
    )
    return join(element("p", parts, class_="colored", dir="auto"), key, note(block.note))


def _shade(value: float) -> str | None:
    step = round(min(max(value, -1.0), 1.0) * SHADES)
    return f"{'cold' if step < 0 else 'warm'} s{abs(step)}" if step else None


def next_steps(block: NextSteps) -> Markup:
    """Each command in a box that is selected with one click."""
    steps = [
        element(
            "li",
            data_text(step.about, "p") if step.about else None,
            _command(step.command),
        )
        for step in block.commands
    ]
    return element("ol", steps, class_="steps")


def _command(text: str) -> Markup:
    """A command line. Line breaks do not split options at dashes or from short values."""
    parts = [
        element("span", part, class_="together") if part.startswith("-") and len(part) <= UNBROKEN else part
        for part in re.split(r"((?:(?<=\s)|^)-\S+(?:[ ](?!-)\S+)?)", text)
    ]
    return element("pre", element("code", parts))


def _numeral(text: str) -> Markup:
    """A large number, followed by its deviation in smaller type."""
    mean, sign, deviation = text.partition(" ± ")
    return join(mean, element("span", f" ± {deviation}", class_="deviation") if sign else None)


def _list(values: Mapping[str, Value | tuple[Value, str]]) -> Markup:
    rows = []
    for name, value in values.items():
        shown, remark = value if isinstance(value, tuple) else (value, "")
        about = element("span", remark, class_="remark", dir="auto") if remark else None
        cell = element("dd", element("span", numbers.setting(shown) or numbers.MISSING, dir="auto"), about)
        rows.append(element("div", element("dt", name, dir="auto"), cell))
    return element("dl", rows, class_="facts")
