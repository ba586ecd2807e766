"""`maskwright embed` and `search`: texts as vectors, their similarities and clusters; passages ranked by meaning."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.config import check, option
from ..core.errors import ConfigError, RunError
from ..core.progress import note, track, warn
from ..core.util import plural, shorten
from ..train.settings import SEED
from .common import Part, Result, Table
from .settings import DefaultModelCommand, takes_settings
from .using import (
    BATCH_TOKENS,
    INPUT,
    LAYERS,
    MAX_LENGTH,
    MODEL,
    ExecutorHardware,
    Hardware,
    Rows,
    calibration_texts,
    check_one_source,
    model_of,
    read_rows,
    refuse_same_file,
    stream_rows,
    tell_int8_loss,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..core.progress import Track
    from ..inference.cluster import Clustering
    from ..inference.embed import TextEncoder, TokenVectors
    from ..inference.search import Hit
    from ..inference.similarity import Similarities
    from ..text.readers.inputs import Text
    from ..text.readers.tables import RowStream

SPARSE_ALONE = "--sparse excludes --matrix, --clusters, --layers, --pooling, --normalize, --long and --words."
SHOWN = 6  # dimensions shown on a terminal
TABLE_PLACES = 12  # more make a table that no terminal shows


@dataclass(frozen=True, kw_only=True)
class EmbedSettings(ExecutorHardware, Rows):
    """Settings of `maskwright embed`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "embed"

    model: str = option(help=MODEL)
    texts: tuple[str, ...] = option((), "Texts to embed.", is_argument=True)
    input: Path | None = option(None, INPUT)
    output: Path | None = option(
        None,
        "Output file: .npy (one matrix; .npz with --sparse) or .jsonl; .svg, .png or .html of --matrix; the folder of "
        "--clusters.",
        short="-o",
    )
    matrix: bool = option(False, "Compare the texts with each other by cosine similarity.")
    word: str | None = option(
        None, "With --matrix: compare this word in its contexts; a lowercase word matches any case."
    )
    clusters: str | None = option(
        None, "Cluster the texts: a number of clusters, or auto (2 to 12, by silhouette score)."
    )
    layers: str = option("last", LAYERS)
    pooling: str | None = option(
        None,
        "Pooling: cls, mean, max, state (recurrent models), or none for token embeddings.",
        default_help="as the model folder says, else mean",
    )
    sparse: bool = option(
        False, "Sparse embeddings, a weight for each token of the vocabulary, by a masked language model (SPLADE)."
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
    restart: bool = option(False, "Replace the contents of the folder of --clusters.")
    seed: int = option(0, SEED, help="Random seed of --clusters.")

    def __post_init__(self) -> None:
        check(not (self.matrix and self.clusters), "Pass either --matrix or --clusters.")
        check(self.clusters is None or self.input is not None, "--clusters reads a file: pass --input FILE.")
        check_one_source(self.texts, self.input)
        is_vectors = not self.matrix and self.clusters is None
        endings = (".npz", ".jsonl") if self.sparse else (".npy", ".jsonl")
        if is_vectors and self.output is not None and self.output.suffix.lower() not in endings:
            raise ConfigError(f"{self.output} has an unknown ending: vectors are written as {' or '.join(endings)}.")
        given = (not is_vectors, self.layers != "last", self.pooling, self.normalize, self.long, self.words)
        check(not (self.sparse and any(one not in (None, False) for one in given)), SPARSE_ALONE)
        check(self.word is None or self.matrix, "--word goes with --matrix.")
        number = self.clusters or "auto"
        is_number = number == "auto" or (number.isdecimal() and int(number) >= 2)
        check(is_number, f"--clusters is '{number}'; it takes a number of at least 2, or auto.")
        if self.subwords is not None and not self.words:
            raise ConfigError("--subwords selects how word embeddings are pooled: add --words and --pooling none.")


@takes_settings(EmbedSettings, command_class=DefaultModelCommand)
def embed(settings: EmbedSettings) -> Iterator[Result]:
    """Encode texts as embeddings, in input order; compare or cluster them.

    With --matrix and --word, a sentence that contains the word twice gives two rows, 3#1 and 3#2; one without it is
    invalid. The row of the embedding table (the static word embedding) is included for comparison. With --clusters,
    k-means on the embeddings gives clusters with their typical words and texts, and a 2-D map.

    Examples:

        maskwright embed runs/a/model --input texts.txt --output vectors.npy --pooling mean

        maskwright embed runs/a/model --input documents.jsonl --output vectors.npy --long windows

        maskwright embed runs/a/model "Help, I need somebody!" --pooling none --words --layers concat-last-4 --json

        maskwright embed runs/a/model --matrix "The shop is closed." "The store is shut." "It rains."

        maskwright embed runs/a/model --matrix --word bank "He sat on the river bank." "She paid cash in at the bank."

        maskwright embed runs/s/model --clusters 8 --input texts.txt -o runs/clusters

        maskwright embed splade/ --sparse --input passages.txt --output weights.npz
    """
    refuse_same_file(settings.input, settings.output)
    if settings.sparse:
        return _sparse(settings)
    if settings.matrix:
        return _matrix(settings)
    return _vectors(settings) if settings.clusters is None else _clusters(settings)


def _vectors(settings: EmbedSettings) -> Iterator[Result]:
    input, output = settings.input, settings.output
    rows = None if input is None else stream_rows(input, settings.columns, settings.skip_bad_rows)
    encoder = _open(settings, calibrate_on=calibration_texts(settings, rows))
    tell_int8_loss(encoder.model)
    if settings.words and encoder.pooling != "none":
        raise ConfigError("--words needs --pooling none: other poolings give one vector per text.")
    by_word = (settings.subwords or "mean") if settings.words else None
    texts = _Texts(settings.texts, rows)
    if output is not None and output.suffix.lower() == ".npy":
        _write_npy(encoder, texts, output, by_word, settings.batch_tokens)
    elif output is not None:
        from ..inference.output_files import write_answers

        found = _found(encoder, texts, by_word, settings.batch_tokens)
        note(f"{plural(write_answers(output, found), 'text')} in {output}")
    else:
        for entry in _found(encoder, texts, by_word, settings.batch_tokens):
            yield entry, _previews(entry)
    if rows is not None:
        warn_of_skipped(rows)
    warn_of_cuts(encoder.counts)


def _sparse(settings: EmbedSettings) -> Iterator[Result]:
    from ..api import open_sparse_encoder

    input, output = settings.input, settings.output
    rows = None if input is None else stream_rows(input, settings.columns, settings.skip_bad_rows)
    model, precision = model_of(settings, settings.model, "none")
    own = {"max_length": settings.max_length, "device": settings.device, "precision": precision}
    encoder = open_sparse_encoder(model, calibrate_on=calibration_texts(settings, rows), **own)
    tell_int8_loss(encoder.model)
    texts = _Texts(settings.texts, rows)
    if output is not None and output.suffix.lower() == ".npz":
        from ..inference.output_files import write_npz

        with track("embedding", texts.count, "texts") as progress:
            found = (weights for _, weights in encoder.stream_with_texts(texts, settings.batch_tokens))
            count = write_npz(output, _watched(found, lambda block: block.shape[0], progress), encoder.size)
        note(f"{plural(count, 'vector')} of {encoder.size} in {output}")
    else:
        entries = (
            {"text": text, "indices": row.indices.tolist(), "values": row.data.tolist()}
            | {"tokens": [encoder.tokenizer.id_to_token(index) for index in row.indices.tolist()]}
            for block, weights in encoder.stream_with_texts(texts, settings.batch_tokens)
            for text, row in zip(block, weights, strict=True)
        )
        if output is not None:
            from ..inference.output_files import write_answers

            note(f"{plural(write_answers(output, entries), 'text')} in {output}")
        else:
            for entry in entries:
                yield entry, [_weights(entry)]
    if rows is not None:
        warn_of_skipped(rows)
    warn_of_cuts(encoder.counts)


def _weights(entry: dict[str, Any]) -> str:
    order = sorted(range(len(entry["values"])), key=lambda one: -entry["values"][one])
    shown = "  ".join(f"{entry['tokens'][one]} {entry['values'][one]:.3f}" for one in order[:SHOWN])
    return f"{entry['text']}  [{shown}{' ...' if len(order) > SHOWN else ''}] {len(order)} weights"


def _open(settings: EmbedSettings, **options: Any) -> TextEncoder:
    from ..api import open_embedder

    model, precision = model_of(settings, settings.model, "none")
    own: dict[str, Any] = {
        "layers": settings.layers,
        "pooling": settings.pooling,
        "normalize": settings.normalize,
        "max_length": settings.max_length,
        "long": settings.long,
        "stride": settings.stride,
        "device": settings.device,
        "precision": precision,
    }
    return open_embedder(model, **{**own, **options})


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


def _previews(entry: dict[str, Any]) -> Iterator[Part]:
    if "vector" in entry:
        yield f"{entry['text']}  {_preview(entry['vector'])}"
        return
    yield str(entry["text"])
    for token in entry["tokens"]:
        yield f"  {token['token']:<16} {token['word']:<16} {_preview(token['vector'])}"


def _preview(vector: list[float]) -> str:
    shown = " ".join(f"{value:+.4f}" for value in vector[:SHOWN])
    return f"[{shown}{' ...' if len(vector) > SHOWN else ''}] {len(vector)} dimensions"


def _matrix(settings: EmbedSettings) -> Iterator[Result]:
    from ..inference.pages import headline, write_similarity
    from ..inference.similarity import text_similarities, word_similarities
    from ..report.pictures import check_picture
    from ..tasks.examples import rows_of

    input, output, word = settings.input, settings.output, settings.word
    if output is not None:
        check_picture(output)
    texts = list(settings.texts)
    rows = rows_of(texts) if input is None else read_rows(input, settings.columns, settings.skip_bad_rows)
    if any(row.text_pair is not None for row in rows):
        raise ConfigError(f"{input} contains pairs; --matrix compares single texts: select one column with --columns.")
    encoder = _open(settings, pooling=settings.pooling if word is None else "none")
    if word is None:
        found = text_similarities(encoder, [row.text for row in rows], settings.batch_tokens)
    else:
        found = word_similarities(
            encoder, rows, word, skip_missing=settings.skip_bad_rows, batch_tokens=settings.batch_tokens
        )
    warn_of_cuts(encoder.counts)
    if found.skipped:
        warn(f"{plural(found.skipped, 'text without the word is', 'texts without the word are')} skipped.")
    if output is not None:
        write_similarity(output, found, Path(settings.model).name)
    yield (
        found.to_json() | ({} if output is None else {"picture": str(output)}),
        (*_similarities(found), headline(found), None if output is None else f"drawn in {output}"),
    )


def _similarities(found: Similarities) -> Iterator[Part]:
    names = [place.name for place in found.places]
    if len(names) > TABLE_PLACES:
        yield f"{len(names)} places make a large table: write it with -o FILE.html, or use --json."
        return
    cells = [
        [place.name, place.shown, *(f"{value:.3f}" for value in row)]
        for place, row in zip(found.places, found.matrix, strict=True)
    ]
    yield Table(["", "text", *names], cells, right=names)
    if found.static is not None:
        low, high = found.static.min(), found.static.max()
        span = f"{low:.3f} everywhere" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"
        yield f"without context, in the embedding table: {span}"


def _clusters(settings: EmbedSettings) -> Iterator[Result]:
    import numpy as np

    from ..inference.cluster import cluster_vectors
    from ..inference.pages import write_clusters

    input, output, name = settings.input, settings.output, Path(settings.model).name
    assert input is not None
    _check_folder(output, settings.restart)
    texts = [
        row.text if row.text_pair is None else f"{row.text} {row.text_pair}"
        for row in read_rows(input, settings.columns, settings.skip_bad_rows)
    ]
    encoder = _open(settings, normalize=True)
    with track("embedding", len(texts), "texts") as progress:
        found_blocks = (vectors for _, vectors in encoder.stream_with_texts(texts, settings.batch_tokens))
        blocks = list(_watched(found_blocks, len, progress))
    number = None if settings.clusters == "auto" else int(settings.clusters or 0)
    found = cluster_vectors(np.concatenate(blocks), texts, number, seed=settings.seed)
    warn_of_cuts(encoder.counts)
    if output is not None:
        write_clusters(output, found, texts, name, input.name, replace=settings.restart)
    places = None if output is None else f"results: {output / 'clusters.tsv'}\nreport:  {output / 'report.html'}"
    yield (
        found.to_json(texts) | ({} if output is None else {"output": str(output)}),
        (*_groups(found, texts), places),
    )


def _groups(found: Clustering, texts: list[str]) -> Iterator[Part]:
    rows = [
        (number, own.size, f"{own.silhouette:.3f}", ", ".join(own.words[:6]), shorten(texts[own.nearest[0]], 60))
        for number, own in enumerate(found.clusters, start=1)
    ]
    columns = ("", "texts", "silhouette", "typical words", "nearest to the center")
    yield Table(columns, rows, right=columns[:3])
    yield f"{len(texts):,} texts, {len(found.clusters)} clusters, silhouette {found.silhouette:.3f}"


def _check_folder(output: Path | None, restart: bool) -> None:
    """Raise RunError early for an output folder in use, and for one without clusters even with --restart."""
    if output is None or not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / "clusters.json").is_file():
        raise RunError(f"{output} is not empty and contains no clusters: choose another output.")
    if not restart:
        raise RunError(f"{output} holds clusters already: choose another output, or --restart to replace them.")


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Hardware, Rows):
    """Settings of `maskwright search`. Raises ConfigError unless there is one source of queries and one text column."""

    COMMAND: ClassVar[str] = "search"

    model: str = option(help=MODEL)
    folder: str = option(help="Texts to search: a folder, a file, or a quoted glob.", is_argument=True)
    queries: tuple[str, ...] = option((), "Queries.", is_argument=True)
    top_k: int = option(5, "Number of passages per query.", minimum=1)
    index: Path | None = option(None, "Folder of the embedding index; unchanged files are not embedded again.")
    passage_tokens: int = option(128, "Maximum tokens per passage.", minimum=1)
    input: Path | None = option(None, INPUT)
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)
    restart: bool = option(False, "Rebuild the index.")

    def __post_init__(self) -> None:
        is_one = bool(self.queries) != (self.input is not None)
        check(is_one, "Pass either queries or --input FILE with one query per line.")
        check(not self.columns.keys() - {"text"}, "search reads one column: --columns text=NAME.")


@takes_settings(SearchSettings, command_class=DefaultModelCommand)
def search(settings: SearchSettings) -> Iterator[Result]:
    """Search texts semantically. A passage is a paragraph, or consecutive sentences of a long one.

    The formats are those of a corpus (.txt, .jsonl, .csv, .parquet, packed or not). Every passage is compared with the
    query by the cosine similarity of their embeddings, or by MaxSim with a ColBERT model; a sentence encoder does it
    best (see finetune similarity).

    Examples:

        maskwright search runs/s/model texts/ "Can you get medicine for someone at the pharmacy?"

        maskwright search runs/s/model texts/ "refund" "late parcel" --index texts.index --top-k 3 --json

        maskwright search runs/s/model tickets.csv "printer is offline" --columns text=body
    """
    queries, skip = list(settings.queries), settings.skip_bad_rows
    if settings.input is not None:
        queries = [row.text for row in read_rows(settings.input, None, skip)]
    from ..api import open_search_encoder
    from ..inference.search import Searcher

    encoder = open_search_encoder(
        settings.model, max_length=settings.max_length, device=settings.device, precision=settings.precision
    )
    searcher = Searcher(
        encoder,
        passage_tokens=settings.passage_tokens,
        text_field=settings.columns.get("text", "text"),
        skip_bad_rows=skip,
        batch_tokens=settings.batch_tokens,
    )
    found = searcher.search(settings.folder, queries, settings.top_k, settings.index, restart=settings.restart)
    warn_of_cuts(encoder.counts)
    for query, hits in zip(queries, found, strict=True):
        results = [{"rank": rank, **hit.to_json()} for rank, hit in enumerate(hits, start=1)]
        yield (
            {"query": query, "passages": searcher.passages, "results": results},
            (f"{query}  ({searcher.passages:,} passages)", *_hits(hits)),
        )


def _hits(hits: Iterable[Hit]) -> Iterator[Part]:
    """Score and place, then the passage with its nearest sentence set apart: bold on a terminal."""
    on, off = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("»", "«")
    for rank, hit in enumerate(hits, start=1):
        own = hit.passage
        start, end = hit.sentence[0] - own.start, hit.sentence[1] - own.start
        before, nearest, after = (_printable(part) for part in (own.text[:start], own.text[start:end], own.text[end:]))
        yield f"{rank:>3}. {hit.score:.3f}  {hit.file}:{own.line}  characters {own.start}-{own.end}"
        yield f"     {before}{on}{nearest}{off}{after}"


def _printable(text: str) -> str:
    """Returns a text on one line, without terminal control characters."""
    spaced = "".join(" " if one.isspace() else one if one.isprintable() else "\ufffd" for one in text)
    return re.sub(" +", " ", spaced)
