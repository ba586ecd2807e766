"""`maskwright embed`: texts as vectors, from any layer, by text, by token or by word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.config import option
from ..core.errors import ConfigError
from ..core.progress import note, track
from ..core.util import plural
from .common import JsonFlag, print_json, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import (
    BATCH_TOKENS,
    INPUT,
    LAYERS,
    MAX_LENGTH,
    MODEL,
    ExecutorHardware,
    Rows,
    calibration_texts,
    check_one_source,
    model_of,
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
    from ..text.readers.tables import RowStream

SHOWN = 6  # dimensions shown on a terminal


@dataclass(frozen=True, kw_only=True)
class EmbedSettings(ExecutorHardware, Rows):
    """Settings of `maskwright embed`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "embed"

    model: str = option(help=MODEL)
    texts: tuple[str, ...] = option((), "Texts to embed.", is_argument=True)
    input: Path | None = option(None, INPUT)
    output: Path | None = option(None, "Output file: .npy (one matrix) or .jsonl.", short="-o")
    layers: str = option("last", LAYERS)
    pooling: str | None = option(
        None,
        "Pooling: cls, mean, max, state (recurrent models), or none for token embeddings.",
        default_help="as the model folder says, else mean",
    )
    words: bool = option(False, "With --pooling none: one embedding per word instead of per token.")
    subwords: Literal["mean", "first"] | None = option(
        None,
        "With --words: average a word's subword tokens, or use the first.",
        default_help="mean",
        old_flag="--pieces",
    )
    normalize: bool | None = option(
        None, "Scale embeddings to unit length.", default_help="as the model folder says, else no"
    )
    max_length: int | None = option(None, MAX_LENGTH)
    long: Literal["cut", "windows"] | None = option(
        None,
        "Truncate longer texts, or split them into overlapping windows.",
        default_help="as the model was trained, else cut",
    )
    stride: int | None = option(
        None, "Overlap of adjacent windows, in tokens.", default_help="a third of --max-length, at most 128"
    )
    batch_tokens: int | None = option(None, BATCH_TOKENS)

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)
        if self.output is not None and self.output.suffix.lower() not in (".npy", ".jsonl"):
            raise ConfigError(f"{self.output} has an unknown ending: vectors are written as .npy or .jsonl.")
        if self.subwords is not None and not self.words:
            raise ConfigError("--subwords selects how word embeddings are pooled: add --words and --pooling none.")


@with_default_model
@takes_settings(EmbedSettings)
def embed(settings: EmbedSettings, json: JsonFlag = False) -> None:
    """Encode texts as embeddings, in input order.

    Examples:

        maskwright embed runs/a/model --input texts.txt --output vectors.npy --pooling mean

        maskwright embed runs/a/model --input documents.jsonl --output vectors.npy --long windows

        maskwright embed runs/a/model "Help, I need somebody!" --pooling none --words --layers concat-last-4 --json
    """
    input, output = settings.input, settings.output
    refuse_same_file(input, output)
    rows = None if input is None else stream_rows(input, settings.columns, settings.skip_bad_rows)
    encoder = _open(settings, calibration_texts(settings, rows))
    tell_int8_loss(encoder.model)
    if settings.words and encoder.pooling != "none":
        raise ConfigError("--words needs --pooling none: other poolings give one vector per text.")
    by_word = (settings.subwords or "mean") if settings.words else None
    texts = _Texts(settings.texts, rows)
    if output is not None and output.suffix.lower() == ".npy":
        _write_npy(encoder, texts, output, by_word, settings.batch_tokens)
    else:
        _write_lines(_found(encoder, texts, by_word, settings.batch_tokens), output, json)
    if rows is not None:
        warn_of_skipped(rows)
    warn_of_cuts(encoder.counts)


def _open(settings: EmbedSettings, calibrate_on: list[Text] | None) -> TextEncoder:
    from ..api import open_embedder

    model, precision = model_of(settings, settings.model, "none")
    return open_embedder(
        model,
        layers=settings.layers,
        pooling=settings.pooling,
        normalize=settings.normalize,
        max_length=settings.max_length,
        long=settings.long,
        stride=settings.stride,
        device=settings.device,
        precision=precision,
        calibrate_on=calibrate_on,
    )


class _Texts:
    """Texts of the command line, or of a file that is streamed. count: None where unknown."""

    def __init__(self, texts: tuple[str, ...], rows: RowStream | None) -> None:
        self.texts, self.rows = texts, rows
        self.count = len(texts) if rows is None else rows.num_rows

    def __iter__(self) -> Iterator[Text]:
        if self.rows is None:
            return iter(self.texts)
        from ..tasks.examples import content_of

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
    from ..inference.output_files import write_npy, write_token_vectors

    with track("embedding", texts.count, "texts") as progress:
        if encoder.pooling == "none":
            names = output.with_suffix(".tokens.jsonl")
            found = _watched(_tokens(encoder, texts, by_word, batch_tokens), lambda _: 1, progress)
            count = write_token_vectors(output, names, found, encoder.size)
        else:
            found = (vectors for _, vectors in encoder.stream_with_texts(texts, batch_tokens))
            count = write_npy(output, _watched(found, len, progress), encoder.size)
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
        from ..inference.output_files import write_answers

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
    return f"[{shown}{' ...' if len(vector) > SHOWN else ''}] {len(vector)} dimensions"
