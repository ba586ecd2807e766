"""`maskwright similarity`: how near texts are, or one word in several sentences, as a matrix and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import option
from ..core.errors import ConfigError
from ..core.progress import note, warn
from ..core.util import plural
from .common import JsonFlag, print_json, print_table, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import (
    BATCH_TOKENS,
    INPUT,
    LAYERS,
    MAX_LENGTH,
    MODEL,
    Hardware,
    Rows,
    check_one_source,
    read_rows,
    refuse_same_file,
    warn_of_cuts,
)

if TYPE_CHECKING:
    from ..inference.similarity import Similarities
    from ..text.readers.tables import Row

TABLE_PLACES = 12  # more make a table that no terminal shows


@dataclass(frozen=True, kw_only=True)
class SimilaritySettings(Hardware, Rows):
    """Settings of `maskwright similarity`. Raises ConfigError unless there is one source of texts."""

    COMMAND: ClassVar[str] = "similarity"

    model: str = option(help=MODEL)
    texts: tuple[str, ...] = option((), "Texts to compare.", is_argument=True)
    word: str | None = option(
        None, "Compare the contextual embeddings of this word; a lowercase word matches any case."
    )
    input: Path | None = option(None, INPUT)
    output: Path | None = option(None, "Write the matrix to .svg, .png or .html.", short="-o")
    layers: str = option("last", LAYERS)
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)


@with_default_model
@takes_settings(SimilaritySettings)
def similarity(settings: SimilaritySettings, json: JsonFlag = False) -> None:
    """Compare texts, or one word in several sentences, by cosine similarity.

    A sentence that contains the word twice gives two rows, 3#1 and 3#2; one without it is invalid. Word embeddings
    average subword tokens. The row of the embedding table (the static word embedding) is included for comparison.

    Examples:

        maskwright similarity runs/a/model --word bank "He sat on the river bank." "She paid cash in at the bank."

        maskwright similarity runs/a/model --word apple --input sentences.txt --layers 6 -o apple.svg

        maskwright similarity runs/a/model "The shop is closed." "The store is shut." --json
    """
    input, output = settings.input, settings.output
    refuse_same_file(input, output)
    from ..inference.pages import headline, write_similarity
    from ..report.pictures import check_picture

    if output is not None:
        check_picture(output)
    from ..tasks.examples import rows_of

    texts = list(settings.texts)
    rows = rows_of(texts) if input is None else read_rows(input, settings.columns, settings.skip_bad_rows)
    if any(row.text_pair is not None for row in rows):
        raise ConfigError(
            f"{input} contains pairs; similarity compares single texts: select one column with --columns."
        )
    found = _compare(settings, rows)
    if found.skipped:
        warn(f"{plural(found.skipped, 'text without the word is', 'texts without the word are')} skipped.")
    if output is not None:
        write_similarity(output, found, Path(settings.model).name)
    if json:
        print_json(found.to_json() | ({} if output is None else {"picture": str(output)}))
        return
    _show(found)
    print_text(headline(found))
    if output is not None:
        note(f"drawn in {output}")


def _compare(settings: SimilaritySettings, rows: list[Row]) -> Similarities:
    from ..api import open_embedder
    from ..inference.similarity import text_similarities, word_similarities

    word, batch_tokens = settings.word, settings.batch_tokens
    encoder = open_embedder(
        settings.model,
        layers=settings.layers,
        pooling=None if word is None else "none",
        max_length=settings.max_length,
        device=settings.device,
        precision=settings.precision,
    )
    if word is None:
        found = text_similarities(encoder, [row.text for row in rows], batch_tokens)
    else:
        found = word_similarities(encoder, rows, word, skip_missing=settings.skip_bad_rows, batch_tokens=batch_tokens)
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
