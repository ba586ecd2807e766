"""HTML reports: typed blocks in, one self-contained HTML file out.

    content.py    the report and its blocks         charts/     SVG charts
    numbers.py    number formatting, HTML elements  page.py     report -> HTML, a pure function
    pictures.py   charts as image files             style.css   light, dark, narrow, wide, print

Reports load no external resources, contain no scripts, and escape all data.
"""

from __future__ import annotations

from pathlib import Path

from ..core import storage
from .content import (
    AlignmentMap,
    Arrow,
    Bar,
    Bars,
    Block,
    Box,
    Chart,
    Checkpoint,
    Checkpoints,
    Collapsible,
    ColoredText,
    Command,
    Comparison,
    Confusion,
    Curves,
    Dots,
    Facts,
    Figure,
    Flow,
    Grid,
    Health,
    HeatMap,
    Histogram,
    KeyFigures,
    Kind,
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
    Series,
    SourceCode,
    System,
    Table,
    Token,
    Tokens,
    Weights,
    WorstError,
    WorstErrors,
)
from .page import render

__all__ = [
    "AlignmentMap",
    "Arrow",
    "Bar",
    "Bars",
    "Block",
    "Box",
    "Chart",
    "Checkpoint",
    "Checkpoints",
    "Collapsible",
    "ColoredText",
    "Command",
    "Comparison",
    "Confusion",
    "Curves",
    "Dots",
    "Facts",
    "Figure",
    "Flow",
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
    "RunMetadata",
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
    "WorstError",
    "WorstErrors",
    "render",
    "write_report",
]


def write_report(path: Path | str, report: Report) -> None:
    """Writes `report` atomically as one HTML file. Raises StorageError if writing fails."""
    storage.write_text(path, render(report))
