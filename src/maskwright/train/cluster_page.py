"""The folder of a clustering: clusters.tsv, clusters.json, map.svg, and a page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core import storage
from ..inference.cluster import Clustering
from .report import (
    Block,
    Chart,
    Curves,
    Figure,
    KeyFigures,
    Report,
    Scatter,
    Section,
    Series,
    Table,
    write_report,
)
from .report.charts.scatter import scatter
from .report.numbers import percent

DRAWN = 4000  # points of the map, at most
SHOWN_LETTERS = 300


def write_clusters(
    folder: Path, found: Clustering, texts: Sequence[str], model: str, source: str, *, replace: bool = False
) -> None:
    """Write the folder, complete or not at all. Raises RunError when it exists and is not empty, unless `replace`."""
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
    """The texts, or an even choice of them, in the plane of the first two principal components."""
    names = [f"{', '.join(own.words[:5]) or 'no typical word'} ({own.size:,})" for own in found.clusters]
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), DRAWN)).round().astype(int)).tolist()
    shares = [percent(share) for share in found.shares]
    note = f"The first two principal components, {shares[0]} and {shares[1]} of the variance: what is near in the map "
    note += "need not be near in all dimensions."
    if len(chosen) < len(texts):
        note += f" {len(chosen):,} of the texts are drawn."
    return Scatter(
        [(float(found.places[index, 0]), float(found.places[index, 1])) for index in chosen],
        [int(found.groups[index]) for index in chosen],
        [texts[index][:SHOWN_LETTERS] for index in chosen],
        names,
        "Texts by their vectors",
        title="Map",
        note=note,
    )


def _page(found: Clustering, texts: Sequence[str], model: str, source: str, drawn: Scatter) -> Report:
    count = len(found.clusters)
    headline = (
        f"{len(texts):,} texts in {count} clusters; silhouette {found.silhouette:.3f}. The largest is about "
        f"{', '.join(found.clusters[0].words[:3]) or 'nothing that words tell'}."
    )
    blocks: list[Block] = [
        KeyFigures(
            [Figure("texts", len(texts)), Figure("clusters", count), Figure("silhouette", f"{found.silhouette:.3f}")]
        ),
        drawn,
        Table(
            ["cluster", "texts", "share", "silhouette", "typical words"],
            [
                [number, own.size, percent(own.size / len(texts)), round(own.silhouette, 3), ", ".join(own.words)]
                for number, own in enumerate(found.clusters, start=1)
            ],
            title="Clusters",
        ),
        Section(
            "Texts nearest to each centre",
            [
                Table(
                    ["cosine", "text"],
                    [[round(float(found.cosines[index]), 3), texts[index][:SHOWN_LETTERS]] for index in own.nearest],
                    title=f"{number}: {', '.join(own.words[:5])}",
                )
                for number, own in enumerate(found.clusters, start=1)
            ],
        ),
    ]
    if len(found.tried) > 1:
        line = Series("silhouette", list(found.tried), list(found.tried.values()))
        blocks.append(Curves([Chart("Silhouette by number of clusters", [line], x_label="clusters")]))
    return Report(f"clusters of {source} with {model}", headline, blocks=blocks)


def _one_line(text: str) -> str:
    """The text as a cell of a TSV file, which has no quoting: tabs and line breaks become spaces."""
    return " ".join(text.split())
