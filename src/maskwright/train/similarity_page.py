"""The picture of a similarity matrix: a file of its own, or a page that also shows what the word is without context."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..inference.similarity import Similarities
from .report import Block, Figure, HeatMap, KeyFigures, Paragraph, Report, write_report
from .report.charts.heat import heat_map
from .report.pictures import write_picture


def write_similarity(path: Path, found: Similarities, model: str) -> None:
    """Write the heat map of `found`, by the ending of `path`. model: its name, for the caption."""
    caption = f"Cosines of '{found.word}' in {len(found.places)} places" if found.word else "Cosines of the texts"
    names, labels = [place.shown for place in found.places], [place.name for place in found.places]
    matrix = found.matrix.tolist()
    if path.suffix.lower() != ".html":
        write_picture(path, str(heat_map(names, labels, matrix, caption)))
        return
    pairs = others(found.matrix)
    figures = [Figure("mean cosine", f"{pairs.mean():.3f}"), Figure("lowest", f"{pairs.min():.3f}")]
    blocks: list[Block] = [
        KeyFigures([*figures, Figure("highest", f"{pairs.max():.3f}")]) if len(pairs) else KeyFigures([]),
        HeatMap(names, labels, matrix, caption, title="In context"),
    ]
    if found.static is not None:
        note = "One vector for a word, whatever the sentence. Another spelling (a capital) may be another piece."
        blocks.append(HeatMap(names, labels, found.static.tolist(), caption, title="In the embedding table", note=note))
        blocks.append(Paragraph("Rows are numbered as the sentences were given; #2 is the second place in a sentence."))
    write_report(path, Report(f"similarity with {model}", headline(found), blocks=blocks))


def headline(found: Similarities) -> str:
    """What the matrix says, in a sentence."""
    pairs = others(found.matrix)
    what = f"'{found.word}'" if found.word else "The texts"
    if not len(pairs):
        return f"{what}: one place, nothing to compare."
    lowest, highest = (_pair(found, int(place)) for place in (pairs.argmin(), pairs.argmax()))
    return f"{what}: nearest are {highest} ({pairs.max():.3f}), farthest {lowest} ({pairs.min():.3f})."


def others(matrix: np.ndarray) -> np.ndarray:
    """The values above the diagonal, row by row: float64 [pairs]."""
    above: np.ndarray = matrix[np.triu_indices(len(matrix), 1)]
    return above


def _pair(found: Similarities, place: int) -> str:
    rows, columns = np.triu_indices(len(found.places), 1)
    return f"{found.places[rows[place]].name} and {found.places[columns[place]].name}"
