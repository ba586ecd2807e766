"""`maskwright cluster`: groups of texts that are near in meaning, with a map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError, RunError
from ..core.progress import track
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .default_model import with_default_model
from .using import BatchTokensOption, InputOption, MaxLengthOption, read_rows, warn_of_cuts

if TYPE_CHECKING:
    import numpy as np

    from ..inference.embed import TextEncoder


@with_default_model
def cluster(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    input: InputOption = None,
    clusters: Annotated[str, typer.Option(help="Number of clusters, or auto: 2 to 12, by silhouette score.")] = "auto",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output folder for the table, the map and the page.")
    ] = None,
    columns: ColumnsOption = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    restart: Annotated[bool, typer.Option("--restart", help="Replace the contents of the output folder.")] = False,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Cluster texts: k-means on their embeddings, typical words and texts per cluster, a 2-D map.

    Examples:

        maskwright cluster runs/s/model --input texts.txt --clusters 8 -o runs/clusters

        maskwright cluster runs/s/model --input tickets.csv --columns text=body --clusters auto --json
    """
    if input is None:
        raise ConfigError("Pass --input FILE with the texts to cluster.")
    if clusters != "auto" and not (clusters.isdecimal() and int(clusters) >= 2):
        raise ConfigError(f"--clusters is '{clusters}'; it takes a number of at least 2, or auto.")
    _check_folder(output, restart)
    set_threads(threads)
    texts = [
        row.text if row.text_pair is None else f"{row.text} {row.text_pair}"
        for row in read_rows(input, columns, skip_bad_rows)
    ]
    from ..api import open_embedder
    from ..inference.cluster import cluster_vectors
    from ..inference.cluster_page import write_clusters

    encoder = open_embedder(model, normalize=True, max_length=max_length, device=device, precision=precision)
    vectors = _embed(encoder, texts, batch_tokens)
    found = cluster_vectors(vectors, texts, None if clusters == "auto" else int(clusters), seed=seed or 0)
    warn_of_cuts(encoder.counts)
    if output is not None:
        write_clusters(output, found, texts, Path(model).name, input.name, replace=restart)
    if json:
        print_json(found.to_json(texts) | ({} if output is None else {"output": str(output)}))
        return
    rows = [
        (number, own.size, f"{own.silhouette:.3f}", ", ".join(own.words[:6]), _short(texts[own.nearest[0]]))
        for number, own in enumerate(found.clusters, start=1)
    ]
    print_table(
        ("", "texts", "silhouette", "typical words", "nearest to the center"), rows, right=("", "texts", "silhouette")
    )
    print_text(f"{len(texts):,} texts, {len(found.clusters)} clusters, silhouette {found.silhouette:.3f}")
    if output is not None:
        print_text(f"results: {output / 'clusters.tsv'}\nreport:  {output / 'report.html'}")


def _short(text: str, width: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


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
        for block in encoder.stream(texts, batch_tokens):
            blocks.append(block)
            done += len(block)
            progress.update(done)
    return np.concatenate(blocks)
