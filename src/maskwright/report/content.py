"""Report content as typed values: the report and its general blocks.

Empty blocks are omitted. All text is data and is escaped when the page is rendered. Table cells are `Value`s, formatted
by `numbers.show`; for another format pass the result of `numbers.percent`, `numbers.duration` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.config import suggested_command

Value = str | int | float | bool | None

Level = Literal["good", "watch", "bad"]


class Block:
    """A part of a report. title: its heading, "" for none; holds: names of the fields with its content."""

    holds: ClassVar[tuple[str, ...]] = ()
    title: str

    def is_empty(self) -> bool:
        """Whether there is nothing to show; the page omits empty blocks."""
        return not any(len(getattr(self, name)) for name in self.holds)


@dataclass(frozen=True)
class Health:
    """Health of a run. reasons: sentences, the most important first; word: label, "" for the default of the level
    (Healthy, Worth a look, Not healthy).
    """

    level: Level
    reasons: Sequence[str] = ()
    word: str = ""

    def __post_init__(self) -> None:
        if self.level not in ("good", "watch", "bad"):
            raise ValueError(f"Health is good, watch or bad, not {self.level!r}.")


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: subject ("bert-mini on the Python documentation"), shown in the tab and above the headline.
        headline: main result in one sentence.
        health: None if there is no assessment.
        blocks: in page order, usually KeyFigures, RunMetadata, dataset statistics (Facts, Bars, Histogram), Curves,
            Weights, Confusion, WorstErrors, MaskExamples, Comparison, Checkpoints, NextSteps.
        made: date as text, "" to omit it.
        version: of Maskwright, "" for the running version.
    """

    title: str
    headline: str
    health: Health | None = None
    blocks: Sequence[Block] = ()
    made: str = ""
    version: str = ""


@dataclass(frozen=True)
class Section(Block):
    """Several blocks under one heading; `lead` is an introductory sentence."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""

    def is_empty(self) -> bool:
        """Whether all of its blocks are empty."""
        return all(block.is_empty() for block in self.blocks)


@dataclass(frozen=True)
class Paragraph(Block):
    """Running text."""

    holds: ClassVar = ("text",)

    text: str
    title: str = ""


@dataclass(frozen=True)
class Table(Block):
    """A plain table. Number columns are detected and right-aligned; `right` overrides which columns are.

    rows: one sequence of values per row, as long as `columns`; strong: indices of emphasized rows; note: text below the
    table.
    """

    holds: ClassVar = ("rows",)

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    title: str = ""
    note: str = ""
    right: Sequence[str] | None = None
    strong: Sequence[int] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"Row {number} has {len(row)} cells for {len(self.columns)} columns.")


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

    holds: ClassVar = ("figures",)

    figures: Sequence[Figure]
    title: str = ""


@dataclass(frozen=True)
class RunMetadata(Block):
    """Command, settings, and environment: versions, machine, dates, times, data fingerprint."""

    holds: ClassVar = ("command", "settings", "environment")

    command: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    environment: Mapping[str, Value] = field(default_factory=dict)
    title: str = "What was run"


@dataclass(frozen=True)
class Facts(Block):
    """Names and values ("Documents: 1,204"). A value can have a remark: `(value, "remark")`."""

    holds: ClassVar = ("facts",)

    facts: Mapping[str, Value | tuple[Value, str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar: label, length, and the text at its end (`shown`, otherwise the value)."""

    label: str
    value: float
    shown: str = ""


@dataclass(frozen=True)
class Bars(Block):
    """Horizontal bars from zero, such as class counts. Values must be finite and not negative."""

    holds: ClassVar = ("bars",)

    bars: Sequence[Bar]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for bar in self.bars:
            if not 0 <= bar.value < float("inf"):
                raise ValueError(f"Bar '{bar.label}' has the value {bar.value}; it must be finite and not negative.")


@dataclass(frozen=True)
class Histogram(Block):
    """A histogram: `len(edges) == len(counts) + 1`, edges ascending.

    marks: labeled vertical lines ("max_length": 128).
    """

    edges: Sequence[float]
    counts: Sequence[int]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        if self.counts and len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.counts)} counts need {len(self.counts) + 1} edges, not {len(self.edges)}.")

    def is_empty(self) -> bool:
        """Whether all counts are 0."""
        return not any(self.counts)


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

    holds: ClassVar = ("commands",)

    commands: Sequence[Command]
    title: str = "What to do next"


# -- Blocks for single examples: matrices, boxes with arrows, rows of tokens, code, collapsible blocks ---------------


Kind = Literal["", "special", "first", "second", "masked", "random", "kept", "right", "wrong"]


@dataclass(frozen=True)
class Grid(Block):
    """A matrix of numbers, shaded by magnitude, with another color for negative values.

    rows, columns: labels; values: [rows, columns], None for masked cells; caption: shown above it; digits: decimal
    places, None for cells without a number.
    """

    holds: ClassVar = ("values",)

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    caption: str
    digits: int | None = 2
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise ValueError(f"A grid of {len(self.rows)} rows and {len(self.columns)} columns needs as many values.")


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

    holds: ClassVar = ("boxes",)

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    caption: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Token:
    """A token of a row: text, kind (determines the color), and a word below it."""

    text: str
    kind: Kind = ""
    below: str = ""


@dataclass(frozen=True)
class Tokens(Block):
    """Rows of tokens, each with a label ("" for none)."""

    holds: ClassVar = ("rows",)

    rows: Sequence[tuple[str, Sequence[Token]]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class SourceCode(Block):
    """Collapsible source code: (name, text) of each function."""

    holds: ClassVar = ("functions",)

    functions: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Collapsible(Block):
    """Blocks that unfold on click. lead: visible sentence above; summary: text to click."""

    holds: ClassVar = ("blocks",)

    lead: str
    summary: str
    blocks: Sequence[Block]
    title: str = ""


# -- Blocks for results: curves, maps, weights, errors, mask predictions, comparisons, checkpoints -------------------


Source = Literal["own", "baseline", "published"]
Unit = Literal["number", "percent"]


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

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"Series '{self.name}' has {len(self.x)} x for {len(self.y)} y.")


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

    def is_empty(self) -> bool:
        """Whether no series has a point."""
        return not any(len(series.x) for series in self.series)


@dataclass(frozen=True)
class Curves(Block):
    """Charts side by side, two per row on wide pages."""

    charts: Sequence[Chart]
    title: str = "Curves"
    note: str = ""

    def is_empty(self) -> bool:
        """Whether no chart has a point."""
        return all(chart.is_empty() for chart in self.charts)


@dataclass(frozen=True)
class ColoredText(Block):
    """A text colored by a number per part. parts: (text, number from -1 to 1); low, high: meaning of -1 and 1."""

    holds: ClassVar = ("parts",)

    parts: Sequence[tuple[str, float]]
    title: str = "Text"
    note: str = ""
    low: str = "-1"
    high: str = "1"


@dataclass(frozen=True)
class SeenBlocks(Block):
    """Sparse attention patterns. maps: name -> one line per query block, "#" for each key block it attends to."""

    holds: ClassVar = ("maps",)

    maps: Mapping[str, str]
    title: str = "Attention pattern"
    note: str = ""


@dataclass(frozen=True)
class Weights(Block):
    """Names of the parameters that were loaded, newly initialized, and unused in the file."""

    holds: ClassVar = ("loaded", "new", "unused")

    loaded: Sequence[str] = ()
    new: Sequence[str] = ()
    unused: Sequence[str] = ()
    title: str = "Weights"


@dataclass(frozen=True)
class Confusion(Block):
    """counts[gold][predicted]: int [labels, labels], both in the order of `labels`."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]
    title: str = "Confusion matrix"
    note: str = ""

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise ValueError(f"A confusion matrix of {size} labels needs {size} rows of {size} counts.")

    def is_empty(self) -> bool:
        """Whether it counts nothing."""
        return not any(count for row in self.counts for count in row)


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

    holds: ClassVar = ("errors",)

    errors: Sequence[WorstError]
    title: str = "Worst errors"
    note: str = ""


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
    """Mask predictions of the model."""

    holds: ClassVar = ("examples",)

    examples: Sequence[MaskExample]
    title: str = "Filled masks"
    note: str = ""


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


@dataclass(frozen=True)
class Comparison(Block):
    """Comparison of systems: measured ones first, published ones in a separate group. The first metric is also drawn.

    metrics: names in column order, [] for the order in which rows have them; unit: unit of the scores;
    higher_is_better: to mark the best measured score of each metric.
    """

    holds: ClassVar = ("systems",)

    systems: Sequence[System]
    metrics: Sequence[str] = ()
    title: str = "Comparison"
    note: str = ""
    unit: Unit = "number"
    higher_is_better: bool = True


@dataclass(frozen=True)
class Dots(Block):
    """Dot plot of scores on one axis: means, standard deviations and single runs. No row is marked as best.

    rows: name -> score; unit: unit of the scores.
    """

    holds: ClassVar = ("rows",)

    rows: Mapping[str, Score]
    title: str = "Scores"
    note: str = ""
    unit: Unit = "number"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: its step, scores, and path; whether it is the best and whether it is kept."""

    step: int
    scores: Mapping[str, Value]
    path: str = ""
    size_bytes: int | None = None
    is_best: bool = False
    is_kept: bool = True


@dataclass(frozen=True)
class Checkpoints(Block):
    """All checkpoints of a run, in order."""

    holds: ClassVar = ("checkpoints",)

    checkpoints: Sequence[Checkpoint]
    title: str = "Checkpoints"
    note: str = ""


@dataclass(frozen=True)
class HeatMap(Block):
    """A square matrix of numbers, such as cosine similarities.

    names: text of each row; labels: short labels of rows and columns; matrix: [rows, rows]; caption: shown in it.
    """

    holds: ClassVar = ("names",)

    names: Sequence[str]
    labels: Sequence[str]
    matrix: Sequence[Sequence[float]]
    caption: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class AlignmentMap(Block):
    """Word alignment. columns: source words; rows: target words; matrix: attention weights [rows, columns], rows
    summing to 1; caption: shown below the image.
    """

    holds: ClassVar = ("rows",)

    columns: Sequence[str]
    rows: Sequence[str]
    matrix: Sequence[Sequence[float]]
    caption: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Scatter(Block):
    """A scatter plot, colored by group. places: (x, y) of each point; groups: group number of each point, from 0;
    texts: tooltips; names: names of the groups.
    """

    holds: ClassVar = ("places",)

    places: Sequence[tuple[float, float]]
    groups: Sequence[int]
    texts: Sequence[str]
    names: Sequence[str]
    caption: str
    title: str = ""
    note: str = ""
