"""The pictures of alignments: one picture of all of them, or a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..tasks.alignments import Aligned
from .report import AlignmentMap, Block, Report, write_report
from .report.charts.alignment import alignment_sheet
from .report.pictures import write_picture

NOTE = "Each row is a word that was written, each column one that was read; a row sums to 1, and dark is 1."


def write_alignments(path: Path, found: Sequence[Aligned], model: str) -> None:
    """Draw `found` into `path`, an .svg, a .png or an .html. model: its name, for the title."""
    if path.suffix.lower() != ".html":
        write_picture(path, str(alignment_sheet([map_of(one) for one in found])))
        return
    count = "One translation" if len(found) == 1 else f"{len(found):,} translations"
    blocks: list[Block] = [
        map_of(one, f"Text {number}" if len(found) > 1 else "", NOTE if number == 1 else "")
        for number, one in enumerate(found, 1)
    ]
    headline = f"{count}: what each written word looked at."
    write_report(path, Report(f"alignments of {model}", headline, blocks=blocks))


def map_of(one: Aligned, title: str = "", note: str = "") -> AlignmentMap:
    """What a report shows of an alignment; below it, how surely the words look."""
    strongest = one.weights.max(axis=1).mean()
    caption = f"A written word gives {strongest:.0%} of its attention to one word, on average."
    return AlignmentMap(one.source, one.target, one.weights.tolist(), caption, title, note)
