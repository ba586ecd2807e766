"""What a run found, as typed values: curves, maps, weights, errors, filled masks, comparisons, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .content import Block, Value

Source = Literal["own", "baseline", "published"]
Unit = Literal["number", "percent"]


@dataclass(frozen=True)
class Series:
    """One line. x and y have the same length. A y of None was not measured; values that are not finite are
    left out and counted below the chart.

    Series of one chart with the same name are seeds of the same thing: they share a colour, and their mean is
    drawn above them. smooth: draw a smoothed line above the thin raw one; None decides by the number of
    points.
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
    """One picture of lines.

    x_label: what x counts ("step", "tokens"); baselines: label -> height, drawn as dashed lines; unit
    "percent" shows fractions per cent; log_y: logarithmic, positive values only (others are counted as left
    out); note: below it.
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
    """Charts beside each other, two in a row where there is room."""

    charts: Sequence[Chart]
    title: str = "Curves"
    note: str = ""

    def is_empty(self) -> bool:
        """Whether no chart has a point."""
        return all(chart.is_empty() for chart in self.charts)


@dataclass(frozen=True)
class ColouredText(Block):
    """A text coloured by a number for each piece of it. pieces: text and number, -1 to 1; low, high: what they mean."""

    holds: ClassVar = ("pieces",)

    pieces: Sequence[tuple[str, float]]
    title: str = "Text"
    note: str = ""
    low: str = "-1"
    high: str = "1"


@dataclass(frozen=True)
class SeenBlocks(Block):
    """Maps of sparse attention. maps: name -> a line for each block of queries, "#" for a block of keys it sees."""

    holds: ClassVar = ("maps",)

    maps: Mapping[str, str]
    title: str = "Who sees whom"
    note: str = ""


@dataclass(frozen=True)
class Weights(Block):
    """Names of the parameters that were loaded, that start new, and that the file has beyond the model's."""

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
    title: str = "Where it confuses classes"
    note: str = ""

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise ValueError(f"A confusion matrix of {size} labels has {size} rows of {size} counts.")

    def is_empty(self) -> bool:
        """Whether it counts nothing."""
        return not any(count for row in self.counts for count in row)


@dataclass(frozen=True)
class WorstError:
    """One wrong row. probability: that of the wrong answer; loss: shown where there is no probability."""

    text: str
    gold: str
    predicted: str
    probability: float | None = None
    loss: float | None = None
    text_pair: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class WorstErrors(Block):
    """The wrong rows, worst first."""

    holds: ClassVar = ("errors",)

    errors: Sequence[WorstError]
    title: str = "Worst errors"
    note: str = ""


@dataclass(frozen=True)
class MaskExample:
    """A sentence with one place masked: the text `before` and `after` it, and the guesses, the most probable
    first.

    answer: what stood there, None where nobody knows; rank: its place among all tokens from 1; probability:
    its own. Both are shown when the answer is not among the guesses.
    """

    before: str
    after: str
    guesses: Sequence[tuple[str, float]]
    answer: str | None = None
    rank: int | None = None
    probability: float | None = None


@dataclass(frozen=True)
class MaskExamples(Block):
    """Masks filled by the model."""

    holds: ClassVar = ("examples",)

    examples: Sequence[MaskExample]
    title: str = "Filled masks"
    note: str = ""


@dataclass(frozen=True)
class Score:
    """Mean of a metric over seeds; with several, its `deviation`, and the score of each in `runs`."""

    mean: float
    deviation: float | None = None
    runs: Sequence[float] = ()


@dataclass(frozen=True)
class System:
    """One row of a comparison.

    source: measured here ("own", or "baseline" for a simpler method), or only "published". A score that is
    text is shown as it is ("41 s").
    """

    name: str
    scores: Mapping[str, Score | float | str | None]
    seeds: int | None = None
    note: str = ""
    source: Source = "own"


@dataclass(frozen=True)
class Comparison(Block):
    """Systems beside each other: measured rows first, published ones apart. The first metric is drawn as
    well.

    metrics: names in the order of the columns, [] for those of the rows as they come; unit: how scores are
    shown; higher_is_better: marks the best measured score of each metric.
    """

    holds: ClassVar = ("systems",)

    systems: Sequence[System]
    metrics: Sequence[str] = ()
    title: str = "Beside other systems"
    note: str = ""
    unit: Unit = "number"
    higher_is_better: bool = True


@dataclass(frozen=True)
class Dots(Block):
    """Things that are scored by themselves, below each other on one axis: means, deviations and single runs as dots.

    rows: name -> score; unit: how scores are shown. Nothing is called best: the rows do not compete.
    """

    holds: ClassVar = ("rows",)

    rows: Mapping[str, Score]
    title: str = "Scores"
    note: str = ""
    unit: Unit = "number"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: where it lies, its step, its scores; `is_best` and `is_kept` mark it."""

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
    """A square matrix of numbers, as cosines. names: the text of each row; labels: a short name for rows and columns;
    matrix: [rows, rows]; caption: what it shows, inside the picture.
    """

    holds: ClassVar = ("names",)

    names: Sequence[str]
    labels: Sequence[str]
    matrix: Sequence[Sequence[float]]
    caption: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Scatter(Block):
    """Points in a plane, coloured by group. places: (x, y) of each; groups: the number of its group, from 0; texts:
    what a pointer on it shows; names: of the groups.
    """

    holds: ClassVar = ("places",)

    places: Sequence[tuple[float, float]]
    groups: Sequence[int]
    texts: Sequence[str]
    names: Sequence[str]
    caption: str
    title: str = ""
    note: str = ""
