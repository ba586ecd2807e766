"""What a report says, as plain typed values: the page itself, and the blocks that any page may use.

A block with nothing in it is left out of the page, so callers need no ifs. All text is data: it is escaped
where the page is made. A cell is a `Value`; numbers in it are formatted by `numbers.show`, and a caller who
wants another form passes what `numbers.percent`, `numbers.duration` and their like return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Value = str | int | float | bool | None

Level = Literal["good", "watch", "bad"]


class Block:
    """A part of a page. title: its heading, "" for none; holds: names of the fields that are its content."""

    holds: ClassVar[tuple[str, ...]] = ()
    title: str

    def is_empty(self) -> bool:
        """Whether there is nothing to show, so that the page leaves it out."""
        return not any(len(getattr(self, name)) for name in self.holds)


@dataclass(frozen=True)
class Health:
    """How a run went, and the sentences that say why, the most important first.

    word: what to call it; "" for the usual word of its level (Healthy, Worth a look, Not healthy).
    """

    level: Level
    reasons: Sequence[str] = ()
    word: str = ""

    def __post_init__(self) -> None:
        if self.level not in ("good", "watch", "bad"):
            raise ValueError(f"Health is good, watch or bad, not {self.level!r}.")


@dataclass(frozen=True)
class Report:
    """A whole page.

    title: what this is about ("bert-mini on the Python documentation"), for the tab and the line above the
    headline; headline: the verdict in one sentence; health: None where nothing was judged; blocks: in the
    order of the page; made: when, in words, "" to leave it out; version: of Maskwright, "" for the one that
    runs.

    The usual order of blocks: KeyFigures, WhatRan, data facts (Facts, Bars, Histogram), Curves, Weights,
    Confusion, WorstErrors, MaskExamples, Comparison, Checkpoints, NextSteps. `Section` groups several under
    one heading.
    """

    title: str
    headline: str
    health: Health | None = None
    blocks: Sequence[Block] = ()
    made: str = ""
    version: str = ""


@dataclass(frozen=True)
class Section(Block):
    """Several blocks under one heading; `lead` is a sentence below it."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""

    def is_empty(self) -> bool:
        """Whether none of its blocks has anything to show."""
        return all(block.is_empty() for block in self.blocks)


@dataclass(frozen=True)
class Paragraph(Block):
    """Running text."""

    holds: ClassVar = ("text",)

    text: str
    title: str = ""


@dataclass(frozen=True)
class Table(Block):
    """A plain table. Columns of numbers are set to the right by themselves; `right` names them where that
    guess fails.

    rows: one sequence of values per row, as long as `columns`; strong: indices of rows to stress; note: below
    the table.
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
    """One large number: what it is, its value, its unit, and a few words below ("a coin gets 50 %")."""

    label: str
    value: Value
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class KeyFigures(Block):
    """The three to six numbers that one would tell a colleague."""

    holds: ClassVar = ("figures",)

    figures: Sequence[Figure]
    title: str = ""


@dataclass(frozen=True)
class WhatRan(Block):
    """The command, its settings, and the environment: versions, machine, dates, times, data fingerprint."""

    holds: ClassVar = ("command", "settings", "environment")

    command: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    environment: Mapping[str, Value] = field(default_factory=dict)
    title: str = "What was run"


@dataclass(frozen=True)
class Facts(Block):
    """Names and values ("Documents: 1,204"). A value may carry a remark: `(value, "remark")`."""

    holds: ClassVar = ("facts",)

    facts: Mapping[str, Value | tuple[Value, str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its length, and the text at its end (`shown`, else the value)."""

    label: str
    value: float
    shown: str = ""


@dataclass(frozen=True)
class Bars(Block):
    """Horizontal bars from zero, such as the shares of classes. Values are finite and not negative."""

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
    """How many things lie between neighbouring edges: `len(edges) == len(counts) + 1`, edges ascending.

    marks: values worth a line, with their label ("max_length": 128).
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
        """Whether it counts nothing."""
        return not any(self.counts)


@dataclass(frozen=True)
class Command:
    """A command to type, and what it does."""

    command: str
    about: str = ""


@dataclass(frozen=True)
class NextSteps(Block):
    """What to do next."""

    holds: ClassVar = ("commands",)

    commands: Sequence[Command]
    title: str = "What to do next"
