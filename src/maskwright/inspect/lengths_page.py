"""HTML report of translation scores by source length, one line per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import Block, Chart, Curves, Report, Series, Table, write_report
from ..report.content import Value
from ..report.findings import Unit
from .lengths import ByLength

MEASURES: dict[str, tuple[str, Unit]] = {  # title and unit
    "bleu": ("BLEU", "number"),
    "token_accuracy": ("Token accuracy (teacher forcing)", "percent"),
    "exact": ("Exact match", "percent"),
}


def write_lengths(path: Path, found: Sequence[ByLength]) -> None:
    """Write the report: scores and number of texts by length. Entries with the same name are seeds of one model."""
    charts = []
    for measure, (title, unit) in MEASURES.items():
        lines = [(one, getattr(one, measure)) for one in found]
        series = [Series(one.name, list(one.words), list(values)) for one, values in lines if values is not None]
        charts.append(Chart(title, series, x_label="source words", unit=unit))
    first = found[0]
    rows: list[list[Value]] = [[f"{words:.1f}", count] for words, count in zip(first.words, first.rows, strict=True)]
    sizes: list[list[Value]] = [
        [name, f"{count:,}"] for name, count in {one.name: one.num_parameters for one in found}.items()
    ]
    blocks: list[Block] = [
        Curves([chart for chart in charts if not chart.is_empty()], title="Scores by length"),
        Table(["Model", "Parameters"], sizes, title="Models"),
        Table(["Mean source words", "Texts"], rows, title="Groups"),
    ]
    write_report(path, Report("translation by source length", headline(found), blocks=blocks))


def headline(found: Sequence[ByLength]) -> str:
    """Return the scores of the shortest and longest sources in one sentence."""
    first = found[0]
    if len(first.words) == 1:
        return f"All sources are about {first.words[0]:.0f} words long: pass texts of several lengths to compare them."
    span = f"From {first.words[0]:.0f} to {first.words[-1]:.0f} source words"
    measure = "token accuracy" if first.bleu is None else "BLEU"
    parts = []
    for name in dict.fromkeys(one.name for one in found):
        scores = [one.token_accuracy if one.bleu is None else one.bleu for one in found if one.name == name]
        start, end = (sum(one[index] for one in scores) / len(scores) for index in (0, -1))
        parts.append(f"{name} goes from {_shown(start, measure)} to {_shown(end, measure)}")
    return f"{span}, {measure}: {'; '.join(parts)}."


def _shown(value: float, measure: str) -> str:
    return f"{value:.1f}" if measure == "BLEU" else f"{value:.3f}"
