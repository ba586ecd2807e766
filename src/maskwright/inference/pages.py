"""HTML pages and pictures of clusters, similarity matrices and alignments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core import storage
from ..report import (
    Block,
    Chart,
    Curves,
    Figure,
    HeatMap,
    KeyFigures,
    Paragraph,
    Report,
    Scatter,
    Section,
    Series,
    Table,
    write_report,
)
from ..report.charts.grids import alignment_sheet, heat_map
from ..report.charts.scatter import scatter
from ..report.numbers import percent
from ..report.pictures import write_picture
from ..tasks.report import ALIGNMENT_NOTE, alignment_map
from ..tasks.translation import Aligned
from .cluster import Clustering
from .similarity import Similarities

# -- Writes a clustering: clusters.tsv, clusters.json, map.svg and an HTML report ------------------------------------


MAX_POINTS = 4000  # of the map
MAX_CHARACTERS = 300  # of a text


def write_clusters(
    folder: Path, found: Clustering, texts: Sequence[str], model: str, source: str, *, replace: bool = False
) -> None:
    """Write the folder atomically. Raises RunError if it exists and is not empty, unless `replace`."""
    with storage.new_folder(folder, replace=replace) as new:
        rows = zip(found.groups.tolist(), found.cosines.tolist(), texts, strict=True)
        lines = [f"{group + 1}\t{cosine:.4f}\t{_one_line(text)}" for group, cosine, text in rows]
        storage.write_text(new / "clusters.tsv", "\n".join(["cluster\tcosine\ttext", *lines]) + "\n")
        storage.write_json(new / "clusters.json", found.to_json(texts))
        drawn = _map(found, texts)
        picture = scatter(drawn.places, drawn.groups, drawn.texts, drawn.names, drawn.caption)
        storage.write_text(new / "map.svg", f"{picture}\n")
        write_report(new / "report.html", _page(found, texts, model, source, drawn))


def _map(found: Clustering, texts: Sequence[str]) -> Scatter:
    """Return the scatter plot of the texts, or an even sample, on the first two principal components."""
    names = [f"{', '.join(one.words[:5]) or 'no characteristic word'} ({one.size:,})" for one in found.clusters]
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), MAX_POINTS)).round().astype(int)).tolist()
    shares = [percent(share) for share in found.shares]
    note = f"The first two principal components explain {shares[0]} and {shares[1]} of the variance. Points that are "
    note += "close here can be far apart in all dimensions."
    if len(chosen) < len(texts):
        note += f" {len(chosen):,} of the texts are shown."
    return Scatter(
        [(float(found.places[index, 0]), float(found.places[index, 1])) for index in chosen],
        [int(found.groups[index]) for index in chosen],
        [texts[index][:MAX_CHARACTERS] for index in chosen],
        names,
        "Text embeddings",
        title="Map",
        note=note,
    )


def _page(found: Clustering, texts: Sequence[str], model: str, source: str, drawn: Scatter) -> Report:
    count = len(found.clusters)
    headline = (
        f"{len(texts):,} texts in {count} clusters; silhouette {found.silhouette:.3f}. Words of the largest: "
        f"{', '.join(found.clusters[0].words[:3]) or 'none'}."
    )
    blocks: list[Block] = [
        KeyFigures(
            [Figure("texts", len(texts)), Figure("clusters", count), Figure("silhouette", f"{found.silhouette:.3f}")]
        ),
        drawn,
        Table(
            ["cluster", "texts", "fraction", "silhouette", "characteristic words"],
            [
                [number, one.size, percent(one.size / len(texts)), round(one.silhouette, 3), ", ".join(one.words)]
                for number, one in enumerate(found.clusters, start=1)
            ],
            title="Clusters",
        ),
        Section(
            "Texts closest to each center",
            [
                Table(
                    ["cosine", "text"],
                    [[round(float(found.cosines[index]), 3), texts[index][:MAX_CHARACTERS]] for index in one.nearest],
                    title=f"{number}: {', '.join(one.words[:5])}",
                )
                for number, one in enumerate(found.clusters, start=1)
            ],
        ),
    ]
    if len(found.tried) > 1:
        line = Series("silhouette", list(found.tried), list(found.tried.values()))
        blocks.append(Curves([Chart("Silhouette by number of clusters", [line], x_label="clusters")]))
    return Report(f"clusters of {source} with {model}", headline, blocks=blocks)


def _one_line(text: str) -> str:
    """Replace tabs and line breaks with spaces, because TSV has no quoting."""
    return " ".join(text.split())


# -- Writes a similarity matrix as an image, or as an HTML report that also shows the static embeddings --------------


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


# -- Writes alignments as an image or an HTML report -----------------------------------------------------------------


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
