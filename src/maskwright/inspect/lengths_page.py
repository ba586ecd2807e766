"""The page of scores by the length of the source: a line for each translator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..train.report import Block, Chart, Curves, Report, Series, Table, write_report
from ..train.report.content import Value
from .lengths import ByLength

MEASURES = {  # what a page draws, and in what unit
    "bleu": ("BLEU of what is written", "number"),
    "token_accuracy": ("Words guessed right, given the right ones before", "percent"),
    "exact": ("Texts written as wanted, word for word", "percent"),
}


def write_lengths(path: Path, found: Sequence[ByLength]) -> None:
    """Write the page: the scores by length, and how many texts each group has. Several of one name are its seeds."""
    charts = []
    for measure, (title, unit) in MEASURES.items():
        lines = [(one, getattr(one, measure)) for one in found]
        series = [Series(one.name, list(one.words), list(values)) for one, values in lines if values is not None]
        charts.append(Chart(title, series, x_label="words of the source", unit=unit))  # type: ignore[arg-type]
    first = found[0]
    rows: list[list[Value]] = [[f"{words:.1f}", count] for words, count in zip(first.words, first.rows, strict=True)]
    sizes: list[list[Value]] = [
        [name, f"{count:,}"] for name, count in {one.name: one.num_parameters for one in found}.items()
    ]
    blocks: list[Block] = [
        Curves([chart for chart in charts if not chart.is_empty()], title="Scores by length"),
        Table(["Translator", "Parameters"], sizes, title="Translators"),
        Table(["Words of the source, mean", "Texts"], rows, title="Groups"),
    ]
    write_report(path, Report("translation by length of the source", headline(found), blocks=blocks))


def headline(found: Sequence[ByLength]) -> str:
    """What is left of each from the shortest to the longest sources, in a sentence."""
    first = found[0]
    if len(first.words) == 1:
        return f"All sources are about {first.words[0]:.0f} words long: give texts of several lengths to compare them."
    span = f"From {first.words[0]:.0f} to {first.words[-1]:.0f} words of the source"
    measure = "token accuracy" if first.bleu is None else "BLEU"
    parts = []
    for name in dict.fromkeys(one.name for one in found):
        own = [one.token_accuracy if one.bleu is None else one.bleu for one in found if one.name == name]
        start, end = (sum(one[place] for one in own) / len(own) for place in (0, -1))
        parts.append(f"{name} goes from {_shown(start, measure)} to {_shown(end, measure)}")
    return f"{span}, {measure}: {'; '.join(parts)}."


def _shown(value: float, measure: str) -> str:
    return f"{value:.1f}" if measure == "BLEU" else f"{value:.3f}"
