"""Writes a similarity matrix as an image, or as an HTML report that also shows the static embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..report import Block, Figure, HeatMap, KeyFigures, Paragraph, Report, write_report
from ..report.charts.heat import heat_map
from ..report.pictures import write_picture
from .similarity import Similarities


def write_similarity(path: Path, found: Similarities, model: str) -> None:
    """Write the heatmap of `found` in the format of the extension of `path`. model: its name, for the title."""
    caption = (
        f"Cosine similarities of '{found.word}' in {len(found.places)} places"
        if found.word
        else "Cosine similarities of the texts"
    )
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
        note = "One embedding per word, independent of the sentence. Capitalized words may be different tokens."
        blocks.append(HeatMap(names, labels, found.static.tolist(), caption, title="Static embeddings", note=note))
        blocks.append(Paragraph("Rows are numbered in input order; #2 is the second occurrence in a sentence."))
    write_report(path, Report(f"similarity with {model}", headline(found), blocks=blocks))


def headline(found: Similarities) -> str:
    """Return the result in one sentence."""
    pairs = others(found.matrix)
    what = f"'{found.word}'" if found.word else "The texts"
    if not len(pairs):
        return f"{what}: a single row, nothing to compare."
    lowest, highest = (_pair(found, int(index)) for index in (pairs.argmin(), pairs.argmax()))
    return f"{what}: most similar are {highest} ({pairs.max():.3f}), least similar {lowest} ({pairs.min():.3f})."


def others(matrix: np.ndarray) -> np.ndarray:
    """Return the values above the diagonal, row by row: float64 [pairs]."""
    above: np.ndarray = matrix[np.triu_indices(len(matrix), 1)]
    return above


def _pair(found: Similarities, index: int) -> str:
    rows, columns = np.triu_indices(len(found.places), 1)
    return f"{found.places[rows[index]].name} and {found.places[columns[index]].name}"
