"""Reports: typed blocks in, one self-contained HTML page out.

A page loads nothing from outside and escapes all data. Its only script, which its policy names by hash, draws the
charts from JSON (static/report.js, with the chart modules of the studio); without it each chart is a sentence. Blocks
without content are omitted. Table cells are `Value`s, formatted by `numbers.show`; for another format pass the result
of `numbers.percent`, `numbers.duration` and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .. import __version__
from ..core import storage
from ..core.config import command_line, suggested_command
from . import numbers
from .numbers import NO_BREAK, Attribute, Markup, Value, clean, data_text, element, escape, join
from .page import bundle, page, static

Level = Literal["good", "watch", "bad"]
Kind = Literal["", "special", "first", "second", "masked", "random", "kept", "right", "wrong"]
Source = Literal["own", "baseline", "published"]
Unit = Literal["number", "percent"]

LEVELS = {"good": ("Healthy", "●"), "watch": ("Worth a look", "▲"), "bad": ("Not healthy", "■")}
LONG_WORD = 40  # characters; a longer one may be broken anywhere
UNBROKEN = 30  # characters that fit in a line on a phone
TURNED_FROM = 6  # letters from which the column labels of a matrix are rotated
MATRIX_TO, PAIRS = 24, 15  # labels of a confusion matrix; beyond that, so many confused pairs are listed
EMPTY = Markup("")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a report. title: its heading, "" for none; note: a remark below it."""

    title: str = ""
    note: str = ""

    def html(self, level: int = 2) -> Markup:
        """The content without title and note, EMPTY if there is none. level: of its heading."""
        raise NotImplementedError


@dataclass(frozen=True)
class Health:
    """Health of a run. reasons: sentences, the most important first; word: label, "" for that of the level."""

    level: Level
    reasons: Sequence[str] = ()
    word: str = ""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"Health is good, watch or bad, not {self.level!r}.")


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: subject ("bert-mini on the Python documentation"), shown in the tab and above the headline.
        headline: main result in one sentence.
        health: None if there is no assessment.
        blocks: in page order.
        made: date as text, "" to omit it.
        version: of Maskwright, "" for the running version.
    """

    title: str
    headline: str
    health: Health | None = None
    blocks: Sequence[Block] = ()
    made: str = ""
    version: str = ""


# -- Text, tables, names and values ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section(Block):
    """Several blocks under one heading; `lead` is an introductory sentence."""

    title: str = field()
    blocks: Sequence[Block]
    lead: str = ""

    def html(self, level: int = 2) -> Markup:
        inside = [shown for block in self.blocks if (shown := _shown(block, level + 1))]
        return join(data_text(self.lead, "p", class_="lead") if self.lead else None, inside) if inside else EMPTY


@dataclass(frozen=True)
class Collapsible(Block):
    """Blocks that unfold on click. lead: visible sentence above; summary: text to click."""

    lead: str
    summary: str
    blocks: Sequence[Block]

    def html(self, level: int = 2) -> Markup:
        inside = [_shown(block, level + 1) for block in self.blocks]
        folded = _folded(escape(self.summary), element("div", inside), "folded")
        return join(data_text(self.lead, "p"), folded) if inside else EMPTY


@dataclass(frozen=True)
class Paragraph(Block):
    """Running text."""

    text: str

    def html(self, level: int = 2) -> Markup:
        return data_text(numbers.keep_together(self.text), "p") if self.text else EMPTY


@dataclass(frozen=True)
class Table(Block):
    """A plain table. Number columns are detected and right-aligned; `right` overrides which columns are.

    rows: one sequence of values per row, as long as `columns`; note: text below the table; strong: indices of
    emphasized rows; groups: heading above the row with this index; stacked: on phones, rows are shown as cards.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    right: Sequence[str] | None = None
    strong: Sequence[int] = ()
    groups: Mapping[int, str] = field(default_factory=dict)
    stacked: bool = False

    def html(self, level: int = 2) -> Markup:
        columns = [numbers.column(values) for values in zip(*self.rows, strict=True)]
        if self.right is not None:
            right = [name in self.right for name in self.columns]
        else:  # the first column names the row, number or not
            right = [bool(place) and all(map(numbers.is_number, cells)) for place, cells in enumerate(columns)]
        heads = [
            element("th", name, class_="number" if is_right else None, scope="col", dir="auto")
            if name
            else element("td")
            for name, is_right in zip(self.columns, right, strict=False)
        ]
        body = []
        for index, row in enumerate(zip(*columns, strict=True)):
            if index in self.groups:
                group = element("th", self.groups[index], colspan=len(heads), scope="rowgroup")
                body.append(element("tr", group, class_="group"))
            cells = [self._cell(*one) for one in zip(self.columns, row, right, strict=True)]
            body.append(element("tr", cells, class_="strong" if index in self.strong else None))
        head = element("thead", element("tr", heads))
        table = element("table", head, element("tbody", body), class_="stacked" if self.stacked else None)
        return _wide(table) if body else EMPTY

    def _cell(self, name: str, text: str, is_right: bool) -> Markup:
        """A right-aligned number, or text. A single short word (a path) is not broken, a very long one is."""
        longest = max((len(word) for word in text.split()), default=0)
        is_long = longest >= LONG_WORD or (self.stacked and len(text) > LONG_WORD)
        class_ = "number" if is_right else "long" if is_long else "together" if longest == len(text) else None
        label = name if self.stacked else None
        return element("td", text, dir=None if is_right else "auto", class_=class_, data_label=label)


def _wide(content: Markup) -> Markup:
    """A box that scrolls horizontally, also with the keyboard."""
    return element("div", content, class_="wide", role="group", aria_label="Table", tabindex=0)


def _folded(summary: Markup, content: Markup, class_: str) -> Markup:
    return element("details", element("summary", summary), content, class_=class_)


@dataclass(frozen=True)
class Figure:
    """A key figure: label, value, unit, and a short note ("random guessing: 50%")."""

    label: str
    value: Value
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class KeyFigures(Block):
    """The three to six most important numbers."""

    figures: Sequence[Figure]

    def html(self, level: int = 2) -> Markup:
        shown = []
        for one in self.figures:
            mean, sign, deviation = numbers.keep_together(numbers.show(one.value)).partition(f"{NO_BREAK}±{NO_BREAK}")
            smaller = element("span", f"{sign}{deviation}", class_="deviation") if sign else None
            unit = element("span", f" {one.unit}", class_="unit") if one.unit else None
            value = element("dd", element("span", mean, smaller, class_="numeral"), unit)
            remark = element("dd", numbers.keep_together(one.note), class_="remark", dir="auto") if one.note else None
            shown.append(element("div", element("dt", one.label, dir="auto"), value, remark))
        return element("dl", shown, class_="figures") if shown else EMPTY


@dataclass(frozen=True)
class Facts(Block):
    """Names and values ("Documents: 1,204"). A value can have a remark: `(value, "remark")`."""

    facts: Mapping[str, Value | tuple[Value, str]]

    def html(self, level: int = 2) -> Markup:
        rows = []
        for name, value in self.facts.items():
            shown, remark = value if isinstance(value, tuple) else (value, "")
            about = data_text(remark, class_="remark") if remark else None
            text = data_text(numbers.setting(shown) or numbers.MISSING)
            rows.append(element("div", element("dt", name, dir="auto"), element("dd", text, about)))
        return element("dl", rows, class_="facts") if rows else EMPTY


@dataclass(frozen=True)
class RunMetadata(Block):
    """Command, settings, and environment: versions, machine, dates, times, data fingerprint."""

    command: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    environment: Mapping[str, Value] = field(default_factory=dict)
    title: str = field(default="What was run", kw_only=True)

    @classmethod
    def of(cls, config: type, recipe: Mapping[str, Any], environment: Mapping[str, Value]) -> RunMetadata:
        """The command and the settings of a recipe. config: its class of settings."""
        return cls(command_line(config, recipe), {name: plain(value) for name, value in recipe.items()}, environment)

    def html(self, level: int = 2) -> Markup:
        lists = [
            element("div", element("p", name, class_="subhead"), Facts(values).html(), class_="dense")
            for name, values in (("Settings", self.settings), ("Where and when", self.environment))
            if values
        ]
        return join(_command(self.command) if self.command else None, lists)


def plain(value: Any) -> Any:
    """A setting for `Facts`: a list or a dict as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Command:
    """A command line, and what it does."""

    command: str
    about: str = ""

    @classmethod
    def suggest(cls, about: str, command: str, **values: Any) -> Command:
        """Returns the command with these settings. command: its name, of the kind "command" in the registry."""
        return cls(suggested_command(command, **values), about)


@dataclass(frozen=True)
class NextSteps(Block):
    """Suggested next commands."""

    commands: Sequence[Command]
    title: str = field(default="What to do next", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        steps = [
            element("li", data_text(one.about, "p") if one.about else None, _command(one.command))
            for one in self.commands
        ]
        return element("ol", steps, class_="steps") if steps else EMPTY


def _command(text: str) -> Markup:
    """A command line. Line breaks do not split options at dashes or from short values."""
    parts = [
        element("span", part, class_="together") if part.startswith("-") and len(part) <= UNBROKEN else part
        for part in re.split(r"((?:(?<=\s)|^)-\S+(?:[ ](?!-)\S+)?)", text)
    ]
    return element("pre", element("code", parts))


@dataclass(frozen=True)
class SourceCode(Block):
    """Collapsible source code: (name, text) of each function."""

    functions: Sequence[tuple[str, str]]

    def html(self, level: int = 2) -> Markup:
        code = ((element("code", name), element("pre", element("code", text))) for name, text in self.functions)
        return join([_folded(*one, "code") for one in code])


@dataclass(frozen=True)
class Weights(Block):
    """Names of the parameters that were loaded, newly initialized, and unused in the file."""

    loaded: Sequence[str] = ()
    new: Sequence[str] = ()
    unused: Sequence[str] = ()
    title: str = field(default="Weights", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        kinds = {
            "Loaded from the model folder": self.loaded,
            "Newly initialized, trained in this run": self.new,
            "In the file, not used by this model": self.unused,
        }
        parts = []
        for about, found in kinds.items():
            words = join(element("span", numbers.count(len(found)), class_="amount"), element("span", about))
            names = element("ul", [element("li", element("code", name)) for name in found])
            parts.append(_folded(words, names, "weights") if found else element("p", words, class_="weights"))
        return join(parts) if any(kinds.values()) else EMPTY


@dataclass(frozen=True)
class Token:
    """A token of a row: text, kind (determines the color), and a word below it."""

    text: str
    kind: Kind = ""
    below: str = ""


@dataclass(frozen=True)
class Tokens(Block):
    """Rows of tokens, each with a label ("" for none)."""

    rows: Sequence[tuple[str, Sequence[Token]]]

    def html(self, level: int = 2) -> Markup:
        lines = []
        for label, row in self.rows:
            boxes = []
            for one in row:
                below = element("span", one.below, class_="under") if one.below else None
                boxes.append(element("span", data_text(one.text, class_="text"), below, class_=f"token {one.kind}"))
            name = data_text(label, class_="row-name") if label else None
            lines.append(element("div", name, element("span", boxes, class_="pieces", dir="auto"), class_="token-row"))
        return join(lines)


@dataclass(frozen=True)
class ColoredText(Block):
    """A text colored by a number per part. parts: (text, number from -1 to 1); low, high: meaning of -1 and 1."""

    parts: Sequence[tuple[str, float]]
    title: str = field(default="Text", kw_only=True)
    low: str = "-1"
    high: str = "1"

    def html(self, level: int = 2) -> Markup:
        text = element("p", [_shaded("span", value, part) for part, value in self.parts], class_="colored", dir="auto")
        ends = [_shaded("span", -1.0, self.low), " to ", _shaded("span", 1.0, self.high)]
        return join(text, element("p", ends, class_="note")) if self.parts else EMPTY


def _shaded(tag: str, value: float, *parts: str | Markup | None, **attributes: Attribute) -> Markup:
    """An element with a background for a value from -1 to 1: one color above 0, another below."""
    style = f"--depth:{min(abs(value), 1.0):.3f}"
    return element(tag, *parts, class_="shaded below" if value < 0 else "shaded", style=style, **attributes)


# -- Bars, matrices and comparisons ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One bar: label, length, and the text at its end (`shown`, otherwise the value)."""

    label: str
    value: float
    shown: str = ""


@dataclass(frozen=True)
class Bars(Block):
    """Horizontal bars from zero, such as class counts. Values must be finite and not negative."""

    bars: Sequence[Bar]

    def html(self, level: int = 2) -> Markup:
        longest = max((bar.value for bar in self.bars), default=0.0) or 1.0
        rows = []
        for one in self.bars:
            track = element("span", element("span", style=f"width:{100 * one.value / longest:.1f}%"), class_="track")
            amount = element("span", one.shown or numbers.show(one.value), class_="amount")
            rows.append(element("li", data_text(one.label, class_="label"), track, amount))
        return element("ul", rows, class_="bars") if rows else EMPTY


@dataclass(frozen=True)
class MaskExample:
    """A masked token in context: the text `before` and `after` it, and the predictions, most probable first.

    answer: the original token, None if unknown; rank: its rank over the vocabulary from 1; probability: its
    probability. Both are shown if the answer is not among the predictions.
    """

    before: str
    after: str
    predictions: Sequence[tuple[str, float]]
    answer: str | None = None
    rank: int | None = None
    probability: float | None = None


@dataclass(frozen=True)
class MaskExamples(Block):
    """Mask predictions of the model: each sentence with its token, the predictions, the right one with a check mark."""

    examples: Sequence[MaskExample]
    title: str = field(default="Filled masks", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        rows = []
        for one in self.examples:
            gap = data_text("[MASK]" if one.answer is None else one.answer, "mark")
            shown = [f"{token} {_chance(chance)}{' ✓' * (token == one.answer)}" for token, chance in one.predictions]
            missed = None if one.answer in dict(one.predictions) else one.rank
            facts = [None if missed is None else numbers.count(missed), one.probability and _chance(one.probability)]
            rows.append([join(data_text(one.before), gap, data_text(one.after)), ", ".join(shown), *facts])
        columns = ("Text", "Predictions", "Rank of the original", "Its probability")
        return Table(columns, rows, right=columns[2:], stacked=True).html()


def _chance(probability: float) -> str:
    return f"<{numbers.percent(0.001)}" if 0 < probability < 0.0005 else numbers.percent(probability)


@dataclass(frozen=True)
class Grid(Block):
    """A matrix of numbers, shaded by magnitude, with another color for negative values.

    rows, columns: labels; values: [rows, columns], None for masked cells; caption: shown above it; digits: decimal
    places, None for small cells without a number; low: the value drawn palest.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    caption: str
    digits: int | None = 2
    low: float = 0.0

    @cached_property
    def _most(self) -> float:
        return max((abs(value) - self.low for row in self.values for value in row if value is not None), default=0.0)

    def depth(self, value: float) -> float:
        """How deep the color of a value is: from -1, below 0, to 1."""
        return (value if value < 0 else max(value - self.low, 0.0)) / (self._most or 1.0)

    @classmethod
    def of_pattern(cls, name: str, drawn: str) -> Grid:
        """An attention pattern. drawn: one line per query block, "#" for each key block it attends to."""
        lines = drawn.split("\n")
        places = [str(place + 1) for place in range(len(lines))]
        return cls(places, places, [[float(one == "#") for one in line] for line in lines], name, None)

    def html(self, level: int = 2) -> Markup:
        cells = [
            [self._cell(f"{name}, {column}", value) for column, value in zip(self.columns, row, strict=True)]
            for name, row in zip(self.rows, self.values, strict=True)
        ]
        caption = element("figcaption", self.caption, dir="auto")
        table = _matrix("", self.columns, self.rows, cells, is_small=self.digits is None)
        return element("figure", caption, table) if cells else EMPTY

    def _cell(self, place: str, value: float | None) -> Markup:
        if value is None:
            return element("td", class_="masked", title=f"{place}: masked")
        text = "" if self.digits is None else numbers.decimals(value, self.digits)
        return _shaded(
            "td", self.depth(value), text, title=f"{place}: {numbers.decimals(value, max(self.digits or 4, 2))}"
        )


def _matrix(
    corner: str,
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Markup]],
    *,
    is_small: bool = False,
) -> Markup:
    """A table of cells; long column labels are rotated."""
    class_ = "turned" if is_small or any(len(name) >= TURNED_FROM for name in columns) else None
    heads = [element("th", data_text(name), scope="col", class_=class_) for name in columns]
    body = [
        element("tr", element("th", data_text(name), scope="row"), row) for name, row in zip(rows, cells, strict=True)
    ]
    head = element("thead", element("tr", element("td", corner), heads))
    return _wide(element("table", head, element("tbody", body), class_="matrix small" if is_small else "matrix"))


@dataclass(frozen=True)
class Confusion(Block):
    """counts[gold][predicted]: int [labels, labels], both in the order of `labels`."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]
    title: str = field(default="Confusion matrix", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        """A matrix with fractions of rows, recall and precision; for too many labels the most confused pairs."""
        if not any(map(any, self.counts)):
            return EMPTY
        if len(self.labels) > MATRIX_TO:
            return self._pairs()
        cells = []
        for gold, row in enumerate(self.counts):
            total = sum(row)
            shown = []
            for predicted, amount in enumerate(row):
                part = amount / total if amount else 0.0
                small = element("span", numbers.percent(part, 0), class_="share") if amount else None
                shown.append(_shaded("td", part if predicted == gold else -part, numbers.count(amount), small))
            cells.append([*shown, _margin(row[gold], total)])
        found = [sum(column) for column in zip(*self.counts, strict=True)]
        foot = [_margin(self.counts[place][place], total) for place, total in enumerate(found)]
        rows, columns = [*self.labels, "Precision"], [*self.labels, "Recall"]
        about = (
            "Rows are gold labels, columns predictions; shading and small figures are fractions of a row. Recall is "
            "per gold label, precision per predicted label."
        )
        matrix = _matrix("Gold ↓ Predicted →", columns, rows, [*cells, [*foot, element("td")]])
        return join(matrix, element("p", about, class_="note"))

    def _pairs(self) -> Markup:
        rows = [
            (gold, predicted, amount, numbers.percent(amount / sum(row)))
            for gold, row in zip(self.labels, self.counts, strict=True)
            for predicted, amount in zip(self.labels, row, strict=True)
            if amount and gold != predicted
        ]
        rows.sort(key=lambda one: -one[2])
        about = f"The pairs most often confused, of {numbers.count(len(rows))}, among {len(self.labels)} labels."
        table = Table(("Gold", "Predicted", "Rows", "Of the gold"), rows[:PAIRS], right=("Rows", "Of the gold"))
        return join(table.html(), element("p", about, class_="note"))


def _margin(part: int, total: int) -> Markup:
    return element("td", numbers.percent(part / total, 0) if total else numbers.MISSING, class_="margin")


@dataclass(frozen=True)
class WorstError:
    """One wrong prediction. probability: of the predicted label; loss: shown if no row has a probability."""

    text: str
    gold: str
    predicted: str
    probability: float | None = None
    loss: float | None = None
    text_pair: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class WorstErrors(Block):
    """The wrong predictions, worst first."""

    errors: Sequence[WorstError]
    title: str = field(default="Worst errors", kw_only=True)

    def html(self, level: int = 2) -> Markup:
        """A table, with line, probability or loss if any row has one."""
        columns: dict[str, list[Value]] = {
            "Line": [one.line for one in self.errors],
            "Text": [one.text if one.text_pair is None else f"{one.text}\n{one.text_pair}" for one in self.errors],
            "Gold": [one.gold for one in self.errors],
            "Predicted": [one.predicted for one in self.errors],
            "Probability": [one.probability and numbers.percent(one.probability) for one in self.errors],
            "Loss": [None if one.loss is None else numbers.fraction(one.loss) for one in self.errors],
        }
        known = {name for name, values in columns.items() if any(value is not None for value in values)}
        known -= {"Loss"} if "Probability" in known else set()
        shown = {name: values for name, values in columns.items() if name in known}
        right = ("Line", "Probability", "Loss")
        return Table(list(shown), list(zip(*shown.values(), strict=True)), right=right, stacked=True).html()


@dataclass(frozen=True)
class Score:
    """Mean of a metric over seeds; with several seeds its standard `deviation` and the score of each in `runs`."""

    mean: float
    deviation: float | None = None
    runs: Sequence[float] = ()


@dataclass(frozen=True)
class System:
    """One row of a comparison.

    source: "own" (measured here), "baseline" (a simpler method, measured here) or "published". Text scores are shown
    unchanged ("41 s").
    """

    name: str
    scores: Mapping[str, Score | float | str | None]
    seeds: int | None = None
    note: str = ""
    source: Source = "own"

    def mean(self, metric: str) -> float | None:
        """The mean of a metric; None if it is missing, text or NaN."""
        value = self.scores.get(metric)
        mean = value.mean if isinstance(value, Score) else value
        return None if mean is None or isinstance(mean, str) or not math.isfinite(mean) else float(mean)


@dataclass(frozen=True)
class Comparison(Block):
    """Comparison of systems: measured ones first, published ones in a separate group.

    metrics: names in column order, [] for the order in which rows have them; unit: unit of the scores;
    higher_is_better: to mark the best measured score of each metric.
    """

    systems: Sequence[System]
    metrics: Sequence[str] = ()
    title: str = field(default="Comparison", kw_only=True)
    unit: Unit = "number"
    higher_is_better: bool = True

    def html(self, level: int = 2) -> Markup:
        metrics = list(self.metrics) or list(dict.fromkeys(name for row in self.systems for name in row.scores))
        systems = sorted(self.systems, key=lambda row: row.source == "published")
        measured = sum(row.source != "published" for row in systems)
        has_seeds = any(row.seeds for row in systems)
        means = {name: [row.mean(name) for row in systems[:measured]] for name in metrics}
        choose = max if self.higher_is_better else min
        best = {name: choose(one for one in found if one is not None)
                for name, found in means.items() if sum(one is not None for one in found) > 1}  # fmt: skip
        rows = []
        for place, row in enumerate(systems):
            notes = ["simpler method"] * (row.source == "baseline") + [row.note] * bool(row.note)
            cells = [self._shown(row, name, place < measured and row.mean(name) == best.get(name, math.nan))
                     for name in metrics]  # fmt: skip
            rows.append(["\n".join([row.name, *notes]), *cells, *[numbers.show(row.seeds)] * has_seeds])
        groups = (
            {0: "Measured here", measured: "Published elsewhere, not measured here"} if measured < len(rows) else {}
        )
        columns = ["System", *metrics, *["Seeds"] * has_seeds]
        return Table(columns, rows, right=columns[1:], groups=groups).html()

    def _shown(self, row: System, metric: str, is_best: bool) -> str:
        value, mean = row.scores.get(metric), row.mean(metric)
        if mean is None:
            return value if isinstance(value, str) else numbers.MISSING
        text = numbers.plus_minus(mean, value.deviation if isinstance(value, Score) else None, self.unit)
        return element("strong", text) if is_best else text


# -- The page --------------------------------------------------------------------------------------------------------


def write_report(path: Path | str, report: Report) -> None:
    """Writes `report` atomically as one HTML file. Raises StorageError if writing fails."""
    storage.write_text(path, render(report))


def render(report: Report) -> str:
    """Renders the whole page as HTML: the same page for the same content."""
    blocks, contents = [], []
    for number, block in enumerate(report.blocks, 1):
        name = re.sub(r"[^a-z0-9]+", "-", clean(block.title).lower()).strip("-")
        shown = _shown(block, 2, f"{name}-{number}".strip("-"))
        if shown:
            blocks.append(shown)
        if shown and block.title:
            link = element("a", block.title, href=f"#{name}-{number}".replace("#-", "#"), dir="auto")
            contents.append(element("li", link))
    nav = element("nav", element("ol", contents), aria_label="Contents") if len(contents) > 2 else None
    footer = element("footer", element("p", f"Written by Maskwright {report.version or __version__}."))
    whole = element("div", _header(report), nav, element("main", blocks), class_="page")
    style = static("style.css") + static("charts.css")
    return page(" ".join(report.title.split()), style, [whole, footer], bundle("report.js"))


def _header(report: Report) -> Markup:
    words = [  # short hyphenated words (TF-IDF) are not broken
        element("span", word, class_="together") if "-" in word and len(word) < 16 else word
        for word in re.split(r"(\s+)", numbers.keep_together(report.headline))
    ]
    over = element(
        "p", data_text(report.title, class_="name"), report.made and element("span", report.made), class_="over"
    )
    return element("header", over, element("h1", words, dir="auto"), _health(report.health))


def _health(health: Health | None) -> Markup | None:
    if health is None:
        return None
    word, sign = LEVELS[health.level]
    level = element("p", element("span", sign, class_="sign", aria_hidden="true"), data_text(health.word or word))
    reasons = [data_text(numbers.keep_together(reason), "li") for reason in health.reasons]
    return element("div", level, element("ul", reasons) if reasons else None, class_=f"health {health.level}")


def _shown(block: Block, level: int, anchor: str | None = None) -> Markup:
    """A block with its heading and note; EMPTY without content."""
    content = block.html(level)
    if not content:
        return EMPTY
    heading = element(f"h{min(level, 4)}", block.title, dir="auto") if block.title else None
    class_ = "section" if isinstance(block, Section) else f"block of-{type(block).__name__.lower()}"
    return element("section", heading, content, note_of(block.note), id=anchor, class_=class_)


def note_of(text: str) -> Markup | None:
    """The remark below a block."""
    return data_text(numbers.keep_together(text), "p", class_="note") if text else None
