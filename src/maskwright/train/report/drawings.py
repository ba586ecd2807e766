"""Drawings of single examples, as typed values: matrices, boxes with arrows, rows of tokens, code, folded blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from .content import Block

Kind = Literal["", "special", "first", "second", "masked", "random", "kept", "right", "wrong"]


@dataclass(frozen=True)
class Grid(Block):
    """A matrix of numbers, shaded by size; below 0 another colour.

    rows, columns: their labels; values: [rows, columns], None for a cell that is ruled out; caption: what it shows;
    digits: behind the point, None for cells without a number.
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
    """A box of a flow: what stands in it, and its place. column, row: from 0, may lie between whole numbers; is_strong:
    drawn with the accent.
    """

    text: str
    column: float
    row: float
    is_strong: bool = False


@dataclass(frozen=True)
class Arrow:
    """From one box to another, by their numbers. label: beside its middle."""

    start: int
    end: int
    label: str = ""


@dataclass(frozen=True)
class Flow(Block):
    """Boxes and arrows between them. caption: what it shows, also for readers who cannot see it."""

    holds: ClassVar = ("boxes",)

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    caption: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Token:
    """A token of a row: its text, its kind (its colour), and a word below it."""

    text: str
    kind: Kind = ""
    below: str = ""


@dataclass(frozen=True)
class Tokens(Block):
    """Rows of tokens, each with a label before it ("" for none)."""

    holds: ClassVar = ("rows",)

    rows: Sequence[tuple[str, Sequence[Token]]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class SourceCode(Block):
    """Functions to unfold: name and text of each."""

    holds: ClassVar = ("functions",)

    functions: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Folded(Block):
    """Blocks that a click unfolds. lead: a sentence above it that is always there; summary: what is clicked."""

    holds: ClassVar = ("blocks",)

    lead: str
    summary: str
    blocks: Sequence[Block]
    title: str = ""
