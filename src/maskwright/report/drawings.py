"""Blocks for single examples: matrices, boxes with arrows, rows of tokens, code, collapsible blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from .content import Block

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
