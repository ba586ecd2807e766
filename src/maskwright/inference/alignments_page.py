"""Writes alignments as an image or an HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import Block, Report, write_report
from ..report.charts.alignment import alignment_sheet
from ..report.pictures import write_picture
from ..tasks.translation.alignments import Aligned
from ..tasks.translation.report import ALIGNMENT_NOTE, alignment_map


def write_alignments(path: Path, found: Sequence[Aligned], model: str) -> None:
    """Write the alignments `found` to `path`, an .svg, .png or .html file. model: its name, for the title."""
    if path.suffix.lower() != ".html":
        write_picture(path, str(alignment_sheet([alignment_map(one) for one in found])))
        return
    count = "One translation" if len(found) == 1 else f"{len(found):,} translations"
    blocks: list[Block] = [
        alignment_map(one, f"Text {number}" if len(found) > 1 else "", ALIGNMENT_NOTE if number == 1 else "")
        for number, one in enumerate(found, 1)
    ]
    headline = f"{count}: source words that each target word attends to."
    write_report(path, Report(f"alignments of {model}", headline, blocks=blocks))
