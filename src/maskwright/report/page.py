"""Renders a report as HTML: `render` is a pure function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from .. import __version__
from . import numbers
from .charts.bars import bar_list, track, whisker, whisker_axis
from .charts.bars import histogram as histogram_chart
from .charts.grids import alignment_map, block_map, heat_map
from .charts.grids import grid as grid_chart
from .charts.lines import line_chart
from .charts.scales import Scale
from .charts.scatter import flow as flow_chart
from .charts.scatter import scatter
from .content import (
    AlignmentMap,
    Bars,
    Block,
    Checkpoints,
    Collapsible,
    ColoredText,
    Comparison,
    Confusion,
    Curves,
    Dots,
    Facts,
    Flow,
    Grid,
    Health,
    HeatMap,
    Histogram,
    KeyFigures,
    MaskExample,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Scatter,
    Score,
    Section,
    SeenBlocks,
    SourceCode,
    System,
    Table,
    Token,
    Tokens,
    Value,
    Weights,
    WorstError,
    WorstErrors,
)
from .numbers import Markup, clean, data_text, element, escape, join

# -- HTML of general blocks: paragraphs, key figures, facts, run metadata, bars, commands ----------------------------


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


# -- HTML of tables: plain tables, checkpoints, and lists of weights -------------------------------------------------


# Right-aligned cells: "1,204", "31.2 %", "0.894 ± 0.004", "3 min 20 s", "–".
_NUMBER = re.compile(r"[–−+]?|[−+]?[\d.,]+(e[−+]?\d+)?(\s?(%|[kMG]?B|ms|s|min|h|d|±|[\d.,]+))*")

LONG_WORD = 40  # characters; a longer one may be broken anywhere


def table(block: Table) -> Markup:
    """A plain table in a box that scrolls if it is too wide."""
    columns = [numbers.column(values) for values in zip(*block.rows, strict=True)]
    cells = [list(row) for row in zip(*columns, strict=True)]
    right = _right_columns(block, cells)
    head = element("tr", [head_cell(name, number in right) for number, name in enumerate(block.columns)])
    rows = [
        element(
            "tr",
            [cell(text, number in right) for number, text in enumerate(row)],
            class_="strong" if index in block.strong else None,
        )
        for index, row in enumerate(cells)
    ]
    return join(wide(element("table", element("thead", head), element("tbody", rows))), note(block.note))


def wide(content: Markup) -> Markup:
    """A box that scrolls horizontally, also with the keyboard."""
    return element("div", content, class_="wide", role="group", aria_label="Table", tabindex=0)


def checkpoints(block: Checkpoints) -> Markup:
    """Steps and scores; the best checkpoint is emphasized, removed ones are marked."""
    scores = list(dict.fromkeys(name for one in block.checkpoints for name in one.scores))
    has_size = any(one.size_bytes is not None for one in block.checkpoints)
    has_path = any(one.path for one in block.checkpoints)
    columns = ["Step", *scores, *["Size"] * has_size, *["Folder"] * has_path, "State"]
    rows: list[list[Value]] = []
    for one in block.checkpoints:
        row: list[Value] = [one.step, *(one.scores.get(name) for name in scores)]
        row += [numbers.file_size(one.size_bytes) if one.size_bytes is not None else None] * has_size
        row += [one.path] * has_path
        rows.append([*row, "best" if one.is_best else "" if one.is_kept else "removed"])
    strong = [number for number, one in enumerate(block.checkpoints) if one.is_best]
    return table(Table(columns, rows, note=block.note, strong=strong, right=[*scores, "Size"]))


def weights(block: Weights) -> Markup:
    """Number of parameters of each kind, with collapsible lists of names."""
    kinds = (
        ("loaded", "Loaded from the model folder", block.loaded),
        ("new", "Newly initialized, trained in this run", block.new),
        ("unused", "In the file, not used by this model", block.unused),
    )
    parts = []
    for key, about, found in kinds:
        amount = element("span", numbers.count(len(found)), class_="amount")
        words = element("span", about)
        if not found:
            parts.append(element("p", amount, words, class_=f"weights {key}"))
            continue
        listed = element("ul", [element("li", element("code", name)) for name in found])
        parts.append(element("details", element("summary", amount, words), listed, class_=f"weights {key}"))
    return join(parts)


def _right_columns(block: Table, cells: list[list[str]]) -> set[int]:
    if block.right is not None:
        return {number for number, name in enumerate(block.columns) if name in block.right}
    columns = range(1, len(block.columns))  # the first column names the row, number or not
    return {number for number in columns if all(_NUMBER.fullmatch(row[number].strip()) for row in cells)}


def head_cell(name: str, is_right: bool = False) -> Markup:
    """A column's heading; an empty one is no heading."""
    if not name:
        return element("td")
    return element("th", name, class_="number" if is_right else None, scope="col", dir="auto")


def cell(text: str, is_right: bool) -> Markup:
    """A right-aligned number, or text. A single short word (a path) is not broken, a very long one is."""
    if is_right:
        return element("td", text, class_="number")
    longest = max((len(word) for word in text.split()), default=0)
    class_ = "long" if longest >= LONG_WORD else "together" if longest == len(text) else None
    return element("td", text, dir="auto", class_=class_)


# -- HTML of single examples: grids, flow charts, rows of tokens, code -----------------------------------------------


def grid(block: Grid) -> Markup:
    """A shaded matrix."""
    return join(grid_chart(block), note(block.note))


def flow(block: Flow) -> Markup:
    """Boxes and arrows."""
    return join(flow_chart(block), note(block.note))


def tokens(block: Tokens) -> Markup:
    """Each row is a line of small boxes that wraps."""
    rows = [
        element(
            "div",
            element("span", label, class_="row-name", dir="auto") if label else None,
            element("span", [_token(token) for token in row], class_="pieces", dir="auto"),
            class_="token-row",
        )
        for label, row in block.rows
    ]
    return join(element("div", rows, class_="token-rows"), note(block.note))


def _token(token: Token) -> Markup:
    below = element("span", token.below, class_="under") if token.below else None
    return element("span", data_text(token.text, class_="text"), below, class_=f"token {token.kind}".strip())


def source_code(block: SourceCode) -> Markup:
    """Collapsible functions with their names."""
    parts = [
        element(
            "details", element("summary", element("code", name)), element("pre", element("code", text)), class_="code"
        )
        for name, text in block.functions
    ]
    return join(parts)


# -- HTML of comparisons: measured systems first, published ones in a separate group ---------------------------------


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


# -- HTML of predictions: confusion matrix, worst errors, mask predictions -------------------------------------------


MATRIX_TO = 24  # labels; beyond that the pairs most often confused are listed
PAIRS = 15
HEATS = 8  # steps of shading


def confusion(block: Confusion) -> Markup:
    """A matrix with row percentages; for too many labels the most confused pairs instead."""
    if len(block.labels) > MATRIX_TO:
        return join(_pairs(block), note(block.note))
    totals = [sum(row) for row in block.counts]
    predicted = [sum(column) for column in zip(*block.counts, strict=True)]
    names = [element("th", name, scope="col", dir="auto") for name in block.labels]
    head = element(
        "thead",
        element(
            "tr",
            element("td"),
            element("th", "Predicted", colspan=len(names), class_="over", scope="colgroup"),
            element("td"),
        ),
        element(
            "tr",
            element("th", "Gold", class_="over", scope="col"),
            names,
            element("th", "Recall", scope="col"),
        ),
    )
    rows = []
    for index, (name, row) in enumerate(zip(block.labels, block.counts, strict=True)):
        cells = [_confusion_heat(amount, totals[index], column == index) for column, amount in enumerate(row)]
        found = element("td", _share(row[index], totals[index]), class_="margin")
        rows.append(element("tr", element("th", name, scope="row", dir="auto"), cells, found))
    right = [element("td", _share(block.counts[i][i], predicted[i]), class_="margin") for i in range(len(names))]
    last = element("tr", element("th", "Precision", scope="row"), right, element("td"))
    table = element("table", head, element("tbody", rows), element("tfoot", last), class_="matrix")
    about = (
        "Rows are gold labels, columns predictions; shading and small figures are fractions of a row. Recall is per "
        "gold label, precision per predicted label."
    )
    return join(wide(table), element("p", about, class_="note"), note(block.note))


def worst_errors(block: WorstErrors) -> Markup:
    """Text, gold label, wrong prediction, and its probability or loss if any row has one."""
    errors = block.errors
    known = {"Probability": [one.probability for one in errors], "Loss": [one.loss for one in errors]}
    how_sure = next((name for name, values in known.items() if any(value is not None for value in values)), None)
    has_line = any(one.line is not None for one in errors)
    names = [*["Line"] * has_line, "Text", "Gold", "Predicted", *([how_sure] if how_sure else [])]
    head = element(
        "tr",
        [element("th", name, scope="col", class_="number" if name in {"Line", how_sure} else None) for name in names],
    )
    rows = [element("tr", _error(one, how_sure, has_line)) for one in errors]
    table = element("table", element("thead", head), element("tbody", rows), class_="errors")
    return join(wide(table), note(block.note))


def mask_examples(block: MaskExamples) -> Markup:
    """Each sentence with its mask, and the predictions as bars."""
    return join(element("div", [_example(one) for one in block.examples], class_="masks"), note(block.note))


def _error(one: WorstError, how_sure: str | None, has_line: bool) -> list[Markup]:
    text = data_text(one.text, "p")
    pair = data_text(one.text_pair, "p", class_="second") if one.text_pair is not None else None
    sure = one.probability if how_sure == "Probability" else one.loss
    shown = numbers.MISSING if sure is None else numbers.percent(sure) if how_sure == "Probability" else f"{sure:.3f}"
    line = element("td", numbers.show(one.line), class_="number", data_label="Line")
    return [
        *[line] * has_line,
        element("td", text, pair, class_="text"),
        element("td", data_text(one.gold), data_label="Gold"),
        element("td", data_text(one.predicted), class_="wrong", data_label="Predicted"),
        *[element("td", shown, class_="number", data_label=how_sure)] * (how_sure is not None),
    ]


def _example(one: MaskExample) -> Markup:
    gap = data_text(one.answer, "mark") if one.answer is not None else element("mark", "[MASK]")
    sentence = element("p", data_text(one.before), gap, data_text(one.after), class_="sentence", dir="auto")
    predictions = [_prediction(token, probability, token == one.answer) for token, probability in one.predictions]
    is_missed = one.answer is not None and all(token != one.answer for token, _ in one.predictions)
    missed = None
    if is_missed and (one.rank is not None or one.probability is not None):
        place = f"rank {numbers.count(one.rank)}" if one.rank is not None else "a lower rank"
        chance = f", {_chance(one.probability)}" if one.probability is not None else ""
        missed = element("p", "The original token has ", f"{place}{chance}.", class_="missed")
    return element("div", sentence, element("ol", predictions, class_="guesses"), missed, class_="example")


def _prediction(token: str, probability: float, is_right: bool) -> Markup:
    return element(
        "li",
        data_text(token, class_="label"),
        track(probability),
        element("span", _chance(probability), class_="amount"),
        element("span", "✓" if is_right else "", class_="tick-mark", aria_label="right" if is_right else None),
        class_="right" if is_right else None,
    )


def _chance(probability: float) -> str:
    return f"<{numbers.percent(0.001)}" if 0 < probability < 0.0005 else numbers.percent(probability)


def _confusion_heat(amount: int, total: int, is_diagonal: bool) -> Markup:
    share = amount / total if total else 0.0
    step = 0 if not amount else min(max(1, round(share * HEATS * (1 if is_diagonal else 2))), HEATS)
    small = element("span", numbers.percent(share, 0), class_="share") if amount else None
    return element(
        "td",
        element("span", numbers.count(amount), class_="count"),
        small,
        class_=f"heat {'hit' if is_diagonal else 'miss'} h{step}",
    )


def _share(part: int, total: int) -> str:
    return numbers.percent(part / total, 0) if total else numbers.MISSING


def _pairs(block: Confusion) -> Markup:
    found: list[tuple[int, int, int]] = [
        (amount, gold, predicted)
        for gold, row in enumerate(block.counts)
        for predicted, amount in enumerate(row)
        if amount and gold != predicted
    ]
    found.sort(key=lambda one: (-one[0], one[1], one[2]))
    if not found:
        return element("p", f"No confusions among the {len(block.labels)} labels.")
    head = element("tr", [element("th", name, scope="col") for name in ("Gold", "Predicted", "Rows", "Of the gold")])
    rows = [_pair(block.labels, block.counts, one) for one in found[:PAIRS]]
    about = f"The pairs most often confused, of {numbers.count(len(found))}, among {len(block.labels)} labels."
    return join(
        wide(element("table", element("thead", head), element("tbody", rows))),
        element("p", about, class_="note"),
    )


def _pair(labels: Sequence[str], counts: Sequence[Sequence[int]], one: tuple[int, int, int]) -> Markup:
    amount, gold, predicted = one
    return element(
        "tr",
        element("td", labels[gold], dir="auto"),
        element("td", labels[predicted], dir="auto"),
        element("td", numbers.count(amount), class_="number"),
        element("td", numbers.percent(amount / sum(counts[gold])), class_="number"),
    )


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
    return join(element("div", charts, class_="charts"), note(block.note))


def _maps(block: SeenBlocks) -> Markup:
    maps = [block_map(name, drawn) for name, drawn in block.maps.items()]
    return join(element("div", maps, class_="maps"), note(block.note))


def _heat(block: HeatMap) -> Markup:
    return join(heat_map(block.names, block.labels, block.matrix, block.caption), note(block.note))


def _alignment(block: AlignmentMap) -> Markup:
    picture = element("div", alignment_map(block), class_="wide")
    return join(picture, data_text(block.caption, "p", class_="note"), note(block.note))


def _scatter(block: Scatter) -> Markup:
    picture = scatter(block.places, block.groups, block.texts, block.names, block.caption)
    return join(picture, note(block.note))


def _anchors(titles: Sequence[str]) -> list[str]:
    """A unique HTML id for each title, from its ASCII letters and digits."""
    found: list[str] = []
    for number, title in enumerate(titles, 1):
        name = re.sub(r"[^a-z0-9]+", "-", clean(title).lower()).strip("-") or f"part-{number}"
        found.append(name if name not in found else f"{name}-{number}")
    return found


VIEWS: dict[type, Callable[[Any], Markup]] = {
    Bars: bars,
    Checkpoints: checkpoints,
    ColoredText: colored_text,
    Comparison: comparison,
    Dots: dots,
    Confusion: confusion,
    Curves: _curves,
    Facts: facts,
    Flow: flow,
    Grid: grid,
    HeatMap: _heat,
    AlignmentMap: _alignment,
    Histogram: histogram,
    KeyFigures: key_figures,
    MaskExamples: mask_examples,
    NextSteps: next_steps,
    Paragraph: paragraph,
    Scatter: _scatter,
    SeenBlocks: _maps,
    SourceCode: source_code,
    Table: table,
    Tokens: tokens,
    Weights: weights,
    RunMetadata: what_ran,
    WorstErrors: worst_errors,
}
