"""The page that every run writes: typed content in, one self-contained HTML file out.

    content.py   the page and its general blocks      charts/    our own small SVG charts
    findings.py  what a run found                     page.py    content -> HTML, a pure function
    drawings.py  single examples, drawn
    numbers.py   how numbers are written              style.css  light, dark, narrow, wide, print

The page asks for nothing from outside, holds no script, and shows data as text only.
"""

from __future__ import annotations

from pathlib import Path

from ...core import storage
from .content import (
    Bar,
    Bars,
    Block,
    Command,
    Facts,
    Figure,
    Health,
    Histogram,
    KeyFigures,
    NextSteps,
    Paragraph,
    Report,
    Section,
    Table,
    WhatRan,
)
from .drawings import Arrow, Box, Flow, Folded, Grid, Kind, SourceCode, Token, Tokens
from .findings import (
    Chart,
    Checkpoint,
    Checkpoints,
    ColouredText,
    Comparison,
    Confusion,
    Curves,
    Dots,
    HeatMap,
    MaskExample,
    MaskExamples,
    Scatter,
    Score,
    SeenBlocks,
    Series,
    System,
    Weights,
    WorstError,
    WorstErrors,
)
from .page import render

__all__ = [
    "Arrow",
    "Bar",
    "Bars",
    "Block",
    "Box",
    "Chart",
    "Checkpoint",
    "Checkpoints",
    "ColouredText",
    "Command",
    "Comparison",
    "Confusion",
    "Curves",
    "Dots",
    "Facts",
    "Figure",
    "Flow",
    "Folded",
    "Grid",
    "Health",
    "HeatMap",
    "Histogram",
    "KeyFigures",
    "Kind",
    "MaskExample",
    "MaskExamples",
    "NextSteps",
    "Paragraph",
    "Report",
    "Scatter",
    "Score",
    "Section",
    "SeenBlocks",
    "Series",
    "SourceCode",
    "System",
    "Table",
    "Token",
    "Tokens",
    "Weights",
    "WhatRan",
    "WorstError",
    "WorstErrors",
    "render",
    "write_report",
]


def write_report(path: Path | str, report: Report) -> None:
    """Write `report` as one HTML file, complete or not at all. Raises StorageError when the disk refuses."""
    storage.write_text(path, render(report))
