"""`maskwright fill-mask`: the most probable tokens for each mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ConfigError
from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
    with_default,
)
from .default_model import with_default_model
from .using import InputOption, read_rows

if TYPE_CHECKING:
    from ..inference.fill_mask import FilledText


@with_default_model
def fill_mask(
    model: Annotated[str, typer.Argument(help="Masked language model: a folder, or a Hugging Face Hub model ID.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts with at least one [MASK].")] = None,
    input: InputOption = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of candidates per mask.")] = 5,
    whole: Annotated[bool, typer.Option("--all", help="Show all tokens of the vocabulary.")] = False,
    word: Annotated[
        list[str] | None,
        typer.Option("--word", help=with_default("Score only this word, with its rank. Repeatable.", "all words")),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--words", metavar="WORD,…", help=with_default("Score only these words.", "all words")),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Predict masked tokens.

    Examples:

        maskwright fill-mask runs/a/model "the man went to the [MASK] ." --top-k 5

        maskwright fill-mask runs/a/model "[MASK] is the capital of [MASK] ." --json

        maskwright fill-mask runs/a/model "he bought a [MASK] of milk ." --words gallon,liter
    """
    if bool(texts) == (input is not None):
        raise ConfigError("Pass either texts or --input FILE.")
    wanted = [*(word or []), *(part.strip() for part in (words or "").split(",") if part.strip())]
    if words is not None and not wanted:
        raise ConfigError("--words is empty: pass words, as in --words gallon,liter.")
    set_threads(threads)
    from ..api import open_mask_filler

    if input is not None:
        texts = [row.text for row in read_rows(input)]
    filler = open_mask_filler(model, device=device, precision=precision)
    for found in filler.fill(texts or [], None if whole else top_k, wanted or None):
        print_json(found.to_json()) if json else _show(found)


def _show(found: FilledText) -> None:
    for number, mask in enumerate(found.masks, start=1):
        title = found.text if len(found.masks) == 1 else f"{found.text}   (mask {number} of {len(found.masks)})"
        rows = [(entry.rank, entry.token_str, f"{entry.score:.4f}", entry.sequence) for entry in mask.candidates]
        print_table(("rank", "token", "probability", "text"), rows, title=title, right=("rank", "probability"))
    if len(found.masks) > 1:
        print_text(f"filled: {found.filled}\n")
