"""Writes alignments as an image or an HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import AlignmentMap, Block, Report, write_report
from ..report.charts.alignment import alignment_sheet
from ..report.pictures import write_picture
from ..tasks.translation.alignments import Aligned

NOTE = "Rows are target words, columns are source words; each row sums to 1, and dark is 1."


def write_alignments(path: Path, found: Sequence[Aligned], model: str) -> None:
    """Write the alignments `found` to `path`, an .svg, .png or .html file. model: its name, for the title."""
    if path.suffix.lower() != ".html":
        write_picture(path, str(alignment_sheet([map_of(one) for one in found])))
        return
    count = "One translation" if len(found) == 1 else f"{len(found):,} translations"
    blocks: list[Block] = [
        map_of(one, f"Text {number}" if len(found) > 1 else "", NOTE if number == 1 else "")
        for number, one in enumerate(found, 1)
    ]
    headline = f"{count}: source words that each target word attends to."
    write_report(path, Report(f"alignments of {model}", headline, blocks=blocks))


def map_of(one: Aligned, title: str = "", note: str = "") -> AlignmentMap:
    """Return the alignment heatmap of a report, with the mean largest weight as its caption."""
    strongest = one.weights.max(axis=1).mean()
    caption = f"A target word gives {strongest:.0%} of its attention to one source word, on average."
    return AlignmentMap(one.source, one.target, one.weights.tolist(), caption, title, note)
