"""`maskwright search`: passages of a folder of texts, ranked by meaning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_text,
    set_threads,
)
from .default_model import with_default_model
from .using import BatchTokensOption, InputOption, MaxLengthOption, read_rows, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.search import Hit


@with_default_model
def search(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    folder: Annotated[str, typer.Argument(help="Texts to search: a folder, a file, or a quoted glob.")],
    queries: Annotated[list[str] | None, typer.Argument(help="Queries.")] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of passages per query.")] = 5,
    index: Annotated[
        Path | None, typer.Option(help="Folder of the embedding index; unchanged files are not embedded again.")
    ] = None,
    passage_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per passage.")] = 128,
    input: InputOption = None,
    columns: ColumnsOption = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    restart: Annotated[bool, typer.Option("--restart", help="Rebuild the index.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Search texts semantically. A passage is a paragraph, or consecutive sentences of a long one.

    The formats are those of a corpus (.txt, .jsonl, .csv, .parquet, packed or not). Every passage is compared with the
    query by the cosine of their vectors; a model made for sentences does it best (see finetune --contrastive).

    Examples:

        maskwright search runs/s/model texts/ "Can you get medicine for someone at the pharmacy?"

        maskwright search runs/s/model texts/ "refund" "late parcel" --index texts.index --top-k 3 --json

        maskwright search runs/s/model tickets.csv "printer is offline" --columns text=body
    """
    if bool(queries) == (input is not None):
        raise ConfigError("Pass either queries or --input FILE with one query per line.")
    roles = parse_columns(columns)
    if set(roles) - {"text"}:
        raise ConfigError("search reads one column: --columns text=NAME.")
    asked = list(queries or []) if input is None else [row.text for row in read_rows(input, None, skip_bad_rows)]
    set_threads(threads)
    from ..api import open_embedder
    from ..inference.search import Searcher

    encoder = open_embedder(model, normalize=True, max_length=max_length, device=device, precision=precision)
    searcher = Searcher(
        encoder,
        passage_tokens=passage_tokens,
        text_field=roles.get("text", "text"),
        skip_bad_rows=skip_bad_rows,
        batch_tokens=batch_tokens,
    )
    found = searcher.search(folder, asked, top_k, index, restart=restart)
    warn_of_cuts(encoder.counts)
    for query, hits in zip(asked, found, strict=True):
        if json:
            results = [{"rank": rank, **hit.to_json()} for rank, hit in enumerate(hits, start=1)]
            print_json({"query": query, "passages": searcher.passages, "results": results})
        else:
            print_text(f"{query}  ({searcher.passages:,} passages)")
            for rank, hit in enumerate(hits, start=1):
                _show(rank, hit)


def _show(rank: int, hit: Hit) -> None:
    """Score and place, then the passage with its nearest sentence set apart: bold on a terminal."""
    import sys

    own = hit.passage
    start, end = hit.sentence[0] - own.start, hit.sentence[1] - own.start
    on, off = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("»", "«")
    before, nearest, after = (_printable(part) for part in (own.text[:start], own.text[start:end], own.text[end:]))
    print_text(f"{rank:>3}. {hit.score:.3f}  {hit.file}:{own.line}  characters {own.start}-{own.end}")
    print_text(f"     {before}{on}{nearest}{off}{after}")


def _printable(text: str) -> str:
    """Returns a text on one line, without terminal control characters."""
    spaced = "".join(" " if one.isspace() else one if one.isprintable() else "\ufffd" for one in text)
    while "  " in spaced:
        spaced = spaced.replace("  ", " ")
    return spaced
