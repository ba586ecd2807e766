"""HTML pages and pictures of clusters, similarity matrices and alignments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core import storage
from ..report import Block, Figure, Grid, KeyFigures, Report, Section, Table, write_report
from ..report.charts import Chart, Curves, Scatter, Series
from ..report.numbers import Value, fraction, percent
from ..report.pictures import write_picture
from ..tasks.report import ALIGNMENT_NOTE, alignment_map
from ..tasks.translation import Aligned
from .cluster import Clustering
from .similarity import Similarities

MAX_POINTS = 4000  # of the map of clusters
MAX_CHARACTERS = 300  # of a text


def write_clusters(
    folder: Path, found: Clustering, texts: Sequence[str], model: str, source: str, *, replace: bool = False
) -> None:
    """Writes clusters.tsv, clusters.json and report.html. Raises RunError if the folder exists and is not empty, unless
    `replace`.
    """
    with storage.new_folder(folder, replace=replace) as new:
        rows = zip(found.groups.tolist(), found.cosines.tolist(), texts, strict=True)
        # TSV has no quoting: tabs and line breaks become spaces
        lines = [f"{group + 1}\t{cosine:.4f}\t{' '.join(text.split())}" for group, cosine, text in rows]
        storage.write_text(new / "clusters.tsv", "\n".join(["cluster\tcosine\ttext", *lines]) + "\n")
        storage.write_json(new / "clusters.json", found.to_json(texts))
        write_report(new / "report.html", _page(found, texts, model, source))


def _map(found: Clustering, texts: Sequence[str]) -> Scatter:
    """The texts, or an even sample, on the first two principal components."""
    names = [f"{', '.join(one.words[:5]) or 'no characteristic word'} ({one.size:,})" for one in found.clusters]
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), MAX_POINTS)).round().astype(int)).tolist()
    shares = [percent(share) for share in found.shares]
    note = f"The first two principal components explain {shares[0]} and {shares[1]} of the variance. Points that are "
    note += "close here can be far apart in all dimensions."
    if len(chosen) < len(texts):
        note += f" {len(chosen):,} of the texts are shown."
    places = [(float(found.places[index, 0]), float(found.places[index, 1])) for index in chosen]
    groups = [int(found.groups[index]) for index in chosen]
    return Scatter(places, groups, [texts[index] for index in chosen], names, "Text embeddings", title="Map", note=note)


def _page(found: Clustering, texts: Sequence[str], model: str, source: str) -> Report:
    count = len(found.clusters)
    headline = (
        f"{len(texts):,} texts in {count} clusters; silhouette {found.silhouette:.3f}. Words of the largest: "
        f"{', '.join(found.clusters[0].words[:3]) or 'none'}."
    )
    rows: list[list[Value]] = []
    nearest: list[Block] = []
    for number, one in enumerate(found.clusters, start=1):
        words = ", ".join(one.words)
        rows.append([number, one.size, percent(one.size / len(texts)), round(one.silhouette, 3), words])
        close: list[list[Value]] = [
            [round(float(found.cosines[index]), 3), texts[index][:MAX_CHARACTERS]] for index in one.nearest
        ]
        nearest.append(Table(["cosine", "text"], close, title=f"{number}: {', '.join(one.words[:5])}"))
    figures: dict[str, Value] = {"texts": len(texts), "clusters": count, "silhouette": fraction(found.silhouette)}
    blocks: list[Block] = [
        KeyFigures([Figure(name, value) for name, value in figures.items()]),
        _map(found, texts),
        Table(["cluster", "texts", "fraction", "silhouette", "characteristic words"], rows, title="Clusters"),
        Section("Texts closest to each center", nearest),
    ]
    if len(found.tried) > 1:
        line = Series("silhouette", list(found.tried), list(found.tried.values()))
        blocks.append(Curves([Chart("Silhouette by number of clusters", [line], x_label="clusters")]))
    return Report(f"clusters of {source} with {model}", headline, blocks=blocks)


def write_similarity(path: Path, found: Similarities, model: str) -> None:
    """Writes the matrix of `found` in the format of the extension of `path`. model: its name, for the title."""
    caption = (
        f"Cosine similarities of '{found.word}' in {len(found.places)} places"
        if found.word
        else "Cosine similarities of the texts"
    )
    grid = _grid(found, found.matrix, caption, "In context")
    if path.suffix.lower() != ".html":
        write_picture(path, [grid])
        return
    pairs = others(found.matrix)
    figures = {"mean cosine": pairs.mean(), "lowest": pairs.min(), "highest": pairs.max()} if len(pairs) else {}
    blocks: list[Block] = [KeyFigures([Figure(name, fraction(float(one))) for name, one in figures.items()]), grid]
    if found.static is not None:
        note = (
            "One embedding per word, independent of the sentence. Capitalized words may be different tokens. Rows are "
            "numbered in input order; #2 is the second occurrence in a sentence."
        )
        blocks.append(_grid(found, found.static, caption, "Static embeddings", note))
    write_report(path, Report(f"similarity with {model}", headline(found), blocks=blocks))


def _grid(found: Similarities, matrix: np.ndarray, caption: str, title: str, note: str = "") -> Grid:
    low = max(float(np.floor(matrix.min() * 10) / 10), 0.0)
    names = [f"{place.name}  {place.shown}" for place in found.places]
    columns = [place.name for place in found.places]
    return Grid(names, columns, matrix.tolist(), caption, title=title, note=note, low=min(low, 0.9))


def headline(found: Similarities) -> str:
    """The result in one sentence."""
    pairs = others(found.matrix)
    what = f"'{found.word}'" if found.word else "The texts"
    if not len(pairs):
        return f"{what}: a single row, nothing to compare."
    lowest, highest = (_pair(found, int(index)) for index in (pairs.argmin(), pairs.argmax()))
    return f"{what}: most similar are {highest} ({pairs.max():.3f}), least similar {lowest} ({pairs.min():.3f})."


def others(matrix: np.ndarray) -> np.ndarray:
    """The values above the diagonal, row by row: float64 [pairs]."""
    above: np.ndarray = matrix[np.triu_indices(len(matrix), 1)]
    return above


def _pair(found: Similarities, index: int) -> str:
    rows, columns = np.triu_indices(len(found.places), 1)
    return f"{found.places[rows[index]].name} and {found.places[columns[index]].name}"


def write_alignments(path: Path, found: Sequence[Aligned], model: str) -> None:
    """Writes alignments to an .svg, .png or .html file. model: its name, for the title."""
    grids = [
        alignment_map(one, f"Text {number}" if len(found) > 1 else "", ALIGNMENT_NOTE if number == 1 else "")
        for number, one in enumerate(found, 1)
    ]
    if path.suffix.lower() != ".html":
        write_picture(path, grids)
        return
    count = "One translation" if len(found) == 1 else f"{len(found):,} translations"
    headline = f"{count}: source words that each target word attends to."
    write_report(path, Report(f"alignments of {model}", headline, blocks=grids))
