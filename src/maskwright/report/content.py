"""Report content as typed values: the report and its general blocks.

Empty blocks are omitted. All text is data and is escaped when the page is rendered. Table cells are `Value`s, formatted
by `numbers.show`; for another format pass the result of `numbers.percent`, `numbers.duration` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.options import suggested_command

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
