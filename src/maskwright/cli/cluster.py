"""`maskwright cluster`: groups of texts that are near in meaning, with a map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import option
from ..core.errors import ConfigError, RunError
from ..core.progress import track
from ..core.util import shorten
from ..train.settings import SEED
from .common import JsonFlag, print_json, print_table, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import BATCH_TOKENS, INPUT, MAX_LENGTH, MODEL, Hardware, Rows, read_rows, warn_of_cuts

if TYPE_CHECKING:
    import numpy as np

    from ..inference.cluster import Clustering
    from ..inference.embed import TextEncoder


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(Hardware, Rows):
    """Settings of `maskwright cluster`. Raises ConfigError without an input file, or for a wrong number of clusters."""

    COMMAND: ClassVar[str] = "cluster"

    model: str = option(help=MODEL)
    input: Path | None = option(None, INPUT)
    clusters: str = option("auto", "Number of clusters, or auto: 2 to 12, by silhouette score.")
    output: Path | None = option(None, "Output folder for the table, the map and the page.", short="-o")
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)
    restart: bool = option(False, "Replace the contents of the output folder.")
    seed: int = option(0, SEED)

    def __post_init__(self) -> None:
        if self.input is None:
            raise ConfigError("Pass --input FILE with the texts to cluster.")
        if self.clusters != "auto" and not (self.clusters.isdecimal() and int(self.clusters) >= 2):
            raise ConfigError(f"--clusters is '{self.clusters}'; it takes a number of at least 2, or auto.")


@with_default_model
@takes_settings(ClusterSettings)
def cluster(settings: ClusterSettings, json: JsonFlag = False) -> None:
    """Cluster texts: k-means on their embeddings, typical words and texts per cluster, a 2-D map.

    Examples:

        maskwright cluster runs/s/model --input texts.txt --clusters 8 -o runs/clusters

        maskwright cluster runs/s/model --input tickets.csv --columns text=body --clusters auto --json
    """
    input, output = settings.input, settings.output
    assert input is not None
    _check_folder(output, settings.restart)
    texts = [
        row.text if row.text_pair is None else f"{row.text} {row.text_pair}"
        for row in read_rows(input, settings.columns, settings.skip_bad_rows)
    ]
    from ..api import open_embedder
    from ..inference.cluster import cluster_vectors
    from ..inference.pages import write_clusters

    encoder = open_embedder(
        settings.model,
        normalize=True,
        max_length=settings.max_length,
        device=settings.device,
        precision=settings.precision,
    )
    vectors = _embed(encoder, texts, settings.batch_tokens)
    number = None if settings.clusters == "auto" else int(settings.clusters)
    found = cluster_vectors(vectors, texts, number, seed=settings.seed)
    warn_of_cuts(encoder.counts)
    if output is not None:
        write_clusters(output, found, texts, Path(settings.model).name, input.name, replace=settings.restart)
    if json:
        print_json(found.to_json(texts) | ({} if output is None else {"output": str(output)}))
        return
    _show(found, texts)
    if output is not None:
        print_text(f"results: {output / 'clusters.tsv'}\nreport:  {output / 'report.html'}")


def _show(found: Clustering, texts: list[str]) -> None:
    rows = [
        (number, own.size, f"{own.silhouette:.3f}", ", ".join(own.words[:6]), shorten(texts[own.nearest[0]], 60))
        for number, own in enumerate(found.clusters, start=1)
    ]
    print_table(
        ("", "texts", "silhouette", "typical words", "nearest to the center"), rows, right=("", "texts", "silhouette")
    )
    print_text(f"{len(texts):,} texts, {len(found.clusters)} clusters, silhouette {found.silhouette:.3f}")


def _check_folder(output: Path | None, restart: bool) -> None:
    """Raise RunError early for an output folder in use, and for one without clusters even with --restart."""
    if output is None or not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / "clusters.json").is_file():
        raise RunError(f"{output} is not empty and contains no clusters: choose another output.")
    if not restart:
        raise RunError(f"{output} holds clusters already: choose another output, or --restart to replace them.")


def _embed(encoder: TextEncoder, texts: list[str], batch_tokens: int | None) -> np.ndarray:
    import numpy as np

    blocks, done = [], 0
    with track("embedding", len(texts), "texts") as progress:
        for _, block in encoder.stream_with_texts(texts, batch_tokens):
            blocks.append(block)
            done += len(block)
            progress.update(done)
    return np.concatenate(blocks)
