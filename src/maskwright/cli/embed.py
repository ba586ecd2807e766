"""`maskwright embed`: texts as vectors, from any layer, by text, by token or by word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..core.errors import ConfigError
from ..core.plural import plural
from ..core.progress import note, track
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    InferencePrecisionOption,
    JsonFlag,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_text,
    set_threads,
)
from .default_model import with_default_model
from .long_options import LongVectorsOption, StrideOption
from .using import (
    BatchTokensOption,
    CalibrateOption,
    InputOption,
    MaxLengthOption,
    calibration_texts,
    refuse_same_file,
    stream_rows,
    tell_int8_loss,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..core.progress import Track
    from ..inference.embed import TextEncoder, TokenVectors
    from ..text.readers.inputs import Text
    from ..text.readers.row_stream import RowStream

WordsFlag = Annotated[
    bool, typer.Option("--words", help="With --pooling none: one vector per word instead of per token.")
]
PiecesOption = Annotated[
    Literal["mean", "first"] | None,
    typer.Option(
        help="With --words: average a word's subword tokens, or use the first.  \\[default: mean]", show_default=False
    ),
]
LayersOption = Annotated[
    str,
    typer.Option(
        help="embeddings, last, second-to-last, sum-all, sum-last-4, concat-last-4, or numbers from 0, as in 9,10."
    ),
]
SHOWN = 6  # dimensions shown on a terminal


@with_default_model
def embed(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to embed.")] = None,
    input: InputOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output file: .npy (one matrix) or .jsonl.")
    ] = None,
    layers: LayersOption = "last",
    pooling: Annotated[
        str | None,
        typer.Option(
            help="Pooling: cls, mean, max, state (recurrent models), or none for token embeddings.  "
            "\\[default: as the model folder says, else mean]",
            show_default=False,
        ),
    ] = None,
    words: WordsFlag = False,
    pieces: PiecesOption = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize",
            help="Scale embeddings to unit length.  \\[default: as the model folder says, else no]",
            show_default=False,
        ),
    ] = None,
    columns: ColumnsOption = None,
    max_length: MaxLengthOption = None,
    long: LongVectorsOption = None,
    stride: StrideOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: InferencePrecisionOption = "auto",
    calibrate_on: CalibrateOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Encode texts as embeddings, in input order.

    Examples:

        maskwright embed runs/a/model --input texts.txt --output vectors.npy --pooling mean

        maskwright embed runs/a/model --input documents.jsonl --output vectors.npy --long windows

        maskwright embed runs/a/model "Help, I need somebody!" --pooling none --words --layers concat-last-4 --json
    """
    if bool(texts) == (input is not None):
        raise ConfigError("Pass either texts or --input FILE.")
    if output is not None and output.suffix.lower() not in (".npy", ".jsonl"):
        raise ConfigError(f"{output} has an unknown ending: vectors are written as .npy or .jsonl.")
    refuse_same_file(input, output)
    set_threads(threads)
    rows = None if input is None else stream_rows(input, columns, skip_bad_rows)
    given = _Texts(texts or [], rows)
    typical = calibration_texts(precision, calibrate_on, rows)
    from ..api import open_embedder

    encoder = open_embedder(
        model,
        layers=layers,
        pooling=pooling,
        normalize=normalize,
        max_length=max_length,
        long=long,
        stride=stride,
        device=device,
        precision=precision,
        calibrate_on=typical,
    )
    tell_int8_loss(encoder.model)
    if words and encoder.pooling != "none":
        raise ConfigError("--words needs --pooling none: other poolings give one vector per text.")
    if pieces is not None and not words:
        raise ConfigError("--pieces selects how word embeddings are pooled: add --words and --pooling none.")
    by_word = (pieces or "mean") if words else None
    if output is not None and output.suffix.lower() == ".npy":
        _write_npy(encoder, given, output, by_word, batch_tokens)
    else:
        _write_lines(_found(encoder, given, by_word, batch_tokens), output, json)
    if rows is not None:
        warn_of_skipped(rows)
    warn_of_cuts(encoder.counts)


class _Texts:
    """Texts of the command line, or of a file that is streamed. count: None where unknown."""

    def __init__(self, texts: list[str], rows: RowStream | None) -> None:
        self.texts, self.rows = texts, rows
        self.count = len(texts) if rows is None else rows.num_rows

    def __iter__(self) -> Iterator[Text]:
        if self.rows is None:
            return iter(self.texts)
        from ..tasks.rows.examples import content_of

        return (content_of(row) for row in self.rows)


def _tokens(
    encoder: TextEncoder, texts: Iterable[Text], by_word: str | None, batch_tokens: int | None
) -> Iterator[TokenVectors]:
    """by_word: pooling of word embeddings, None for token embeddings."""
    if by_word is None:
        return encoder.token_vectors(texts, batch_tokens)
    return encoder.word_vectors(texts, by_word, batch_tokens)


def _found(
    encoder: TextEncoder, texts: Iterable[Text], by_word: str | None, batch_tokens: int | None
) -> Iterator[dict[str, Any]]:
    """Yields each text with its embedding, or with its token embeddings."""
    if encoder.pooling == "none":
        texts, own = tee(texts)  # of what is read once: no more is kept than what waits for its vectors
        for text, found in zip(own, _tokens(encoder, texts, by_word, batch_tokens), strict=True):
            yield {"text": text, "tokens": found.to_json()}
        return
    for block, vectors in encoder.stream_with_texts(texts, batch_tokens):
        for text, vector in zip(block, vectors, strict=True):
            yield {"text": text, "vector": vector.tolist()}


def _write_npy(
    encoder: TextEncoder, texts: _Texts, output: Path, by_word: str | None, batch_tokens: int | None
) -> None:
    """Write one matrix; for token embeddings, also a table of the text and token of each row."""
    from ..inference.vectors_file import write_npy, write_token_vectors

    with track("embedding", texts.count, "texts") as progress:
        if encoder.pooling == "none":
            names = output.with_suffix(".tokens.jsonl")
            found = _watched(_tokens(encoder, texts, by_word, batch_tokens), lambda _: 1, progress)
            count = write_token_vectors(output, names, found, encoder.size)
        else:
            count = write_npy(output, _watched(encoder.stream(texts, batch_tokens), len, progress), encoder.size)
    note(f"{plural(count, 'vector')} of {encoder.size} in {output}")
    if encoder.pooling == "none":
        note(f"{names} names the token of each")


def _watched(items: Iterator[Any], texts_in: Callable[[Any], int], progress: Track) -> Iterator[Any]:
    """Yields the items and counts their texts in `progress`."""
    done = 0
    for item in items:
        done += texts_in(item)
        progress.update(done)
        yield item


def _write_lines(found: Iterator[dict[str, Any]], output: Path | None, json: bool) -> None:
    if output is not None:
        from ..inference.answers_file import write_answers

        note(f"{plural(write_answers(output, found), 'text')} in {output}")
        return
    for entry in found:
        if json:
            print_json(entry)
        elif "vector" in entry:
            print_text(f"{entry['text']}  {_preview(entry['vector'])}")
        else:
            print_text(str(entry["text"]))
            for token in entry["tokens"]:
                print_text(f"  {token['token']:<16} {token['word']:<16} {_preview(token['vector'])}")


def _preview(vector: list[float]) -> str:
    shown = " ".join(f"{value:+.4f}" for value in vector[:SHOWN])
    return f"[{shown}{' ...' if len(vector) > SHOWN else ''}] {len(vector)} numbers"
