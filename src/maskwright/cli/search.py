"""`maskwright search`: passages of a folder of texts, ranked by meaning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.config import check, option
from .common import JsonFlag, print_json, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import BATCH_TOKENS, INPUT, MAX_LENGTH, MODEL, Hardware, Rows, read_rows, warn_of_cuts

if TYPE_CHECKING:
    from ..inference.search import Hit


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


@with_default_model
@takes_settings(SearchSettings)
def search(settings: SearchSettings, json: JsonFlag = False) -> None:
    """Search texts semantically. A passage is a paragraph, or consecutive sentences of a long one.

    The formats are those of a corpus (.txt, .jsonl, .csv, .parquet, packed or not). Every passage is compared with the
    query by the cosine similarity of their embeddings; a sentence encoder does it best (see finetune similarity).

    Examples:

        maskwright search runs/s/model texts/ "Can you get medicine for someone at the pharmacy?"

        maskwright search runs/s/model texts/ "refund" "late parcel" --index texts.index --top-k 3 --json

        maskwright search runs/s/model tickets.csv "printer is offline" --columns text=body
    """
    queries, skip = list(settings.queries), settings.skip_bad_rows
    if settings.input is not None:
        queries = [row.text for row in read_rows(settings.input, None, skip)]
    from ..api import open_embedder
    from ..inference.search import Searcher

    encoder = open_embedder(
        settings.model,
        normalize=True,
        max_length=settings.max_length,
        device=settings.device,
        precision=settings.precision,
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
