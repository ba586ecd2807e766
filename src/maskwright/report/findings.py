"""Blocks for results: curves, maps, weights, errors, mask predictions, comparisons, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .content import Block, Value

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
