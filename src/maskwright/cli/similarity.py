"""`maskwright similarity`: how near texts are, or one word in several sentences, as a matrix and a picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError
from ..core.plural import plural
from ..core.progress import note, warn
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from .default_model import with_default_model
from .embed import LayersOption
from .using import BatchTokensOption, InputOption, MaxLengthOption, read_rows, refuse_same_file, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.similarity import Similarities
    from ..text.readers.tables import Row

TABLE_PLACES = 12  # more make a table that no terminal shows


@with_default_model
def similarity(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to compare.")] = None,
    word: Annotated[
        str | None,
        typer.Option(help="Compare contextual embeddings of this word. Lowercase matches any case."),
    ] = None,
    input: InputOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the matrix to .svg, .png or .html.")
    ] = None,
    layers: LayersOption = "last",
    columns: ColumnsOption = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compare texts, or one word in several sentences, by cosine similarity.

    A sentence that contains the word twice gives two rows, 3#1 and 3#2; one without it is invalid. Word embeddings
    average subword tokens. The static vector of the embedding table is included for comparison.

    Examples:

        maskwright similarity runs/a/model --word bank "He sat on the river bank." "She paid cash in at the bank."

        maskwright similarity runs/a/model --word apple --input sentences.txt --layers 6 -o apple.svg

        maskwright similarity runs/a/model "The shop is closed." "The store is shut." --json
    """
    if bool(texts) == (input is not None):
        raise ConfigError("Pass either texts or --input FILE.")
    refuse_same_file(input, output)
    set_threads(threads)
    from ..inference.similarity_page import headline, write_similarity
    from ..report.pictures import check_picture

    if output is not None:
        check_picture(output)
    from ..tasks.rows.examples import rows_of

    rows = rows_of(list(texts or [])) if input is None else read_rows(input, columns, skip_bad_rows)
    if any(row.text_pair is not None for row in rows):
        raise ConfigError(
            f"{input} contains pairs; similarity compares single texts: select one column with --columns."
        )
    found = _compare(model, rows, word, layers, max_length, batch_tokens, device, precision, skip_bad_rows)
    if found.skipped:
        warn(f"{plural(found.skipped, 'text without the word is', 'texts without the word are')} left out.")
    if output is not None:
        write_similarity(output, found, Path(model).name)
    if json:
        print_json(found.to_json() | ({} if output is None else {"picture": str(output)}))
        return
    _show(found)
    print_text(headline(found))
    if output is not None:
        note(f"drawn in {output}")


def _compare(
    model: str,
    rows: list[Row],
    word: str | None,
    layers: str,
    max_length: int | None,
    batch_tokens: int | None,
    device: str,
    precision: str,
    skip_bad_rows: bool,
) -> Similarities:
    from ..api import open_embedder
    from ..inference.similarity import text_similarities, word_similarities

    encoder = open_embedder(
        model,
        layers=layers,
        pooling=None if word is None else "none",
        max_length=max_length,
        device=device,
        precision=precision,
    )
    if word is None:
        found = text_similarities(encoder, [row.text for row in rows], batch_tokens)
    else:
        found = word_similarities(encoder, rows, word, skip_missing=skip_bad_rows, batch_tokens=batch_tokens)
    warn_of_cuts(encoder.counts)
    return found


def _show(found: Similarities) -> None:
    names = [place.name for place in found.places]
    if len(names) > TABLE_PLACES:
        print_text(f"{len(names)} places make a large table: write it with -o FILE.html, or use --json.")
        return
    cells = [
        [place.name, place.shown, *(f"{value:.3f}" for value in row)]
        for place, row in zip(found.places, found.matrix, strict=True)
    ]
    print_table(["", "text", *names], cells, right=names)
    if found.static is not None:
        low, high = found.static.min(), found.static.max()
        span = f"{low:.3f} everywhere" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"
        print_text(f"without context, in the embedding table: {span}")
