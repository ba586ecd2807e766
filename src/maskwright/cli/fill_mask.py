"""`maskwright fill-mask`: the most probable words for every mask of a text."""

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
)
from .using import InputOption, read_rows

if TYPE_CHECKING:
    from ..inference.fill_mask import FilledText


def fill_mask(
    model: Annotated[str, typer.Argument(help="A model folder that pretrain wrote, or a name of the hub.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts with one [MASK] or more.")] = None,
    input: InputOption = None,
    top_k: Annotated[int, typer.Option(min=1, help="Candidates for each mask.")] = 5,
    whole: Annotated[bool, typer.Option("--all", help="All tokens of the vocabulary; they sum to 1.")] = False,
    word: Annotated[list[str] | None, typer.Option("--word", help="Only this word, with its rank. Repeatable.")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Guess the masked words of texts with a pre-trained model.

    Examples:

        maskwright fill-mask runs/a/model "the man went to the [MASK] ." --top-k 5

        maskwright fill-mask runs/a/model "[MASK] is the capital of [MASK] ." --json

        maskwright fill-mask runs/a/model "he bought a [MASK] of milk ." --word gallon --word litre
    """
    if bool(texts) == (input is not None):
        raise ConfigError("Give either texts or --input FILE.")
    set_threads(threads)
    from ..api import open_mask_filler

    if input is not None:
        texts = [row.text for row in read_rows(input)]
    filler = open_mask_filler(model, device=device, precision=precision)
    for found in filler.fill(texts or [], None if whole else top_k, word or None):
        print_json(found.to_json()) if json else _show(found)


def _show(found: FilledText) -> None:
    for number, mask in enumerate(found.masks, start=1):
        title = found.text if len(found.masks) == 1 else f"{found.text}   (mask {number} of {len(found.masks)})"
        rows = [(entry.rank, entry.token_str, f"{entry.score:.4f}", entry.sequence) for entry in mask.candidates]
        print_table(("rank", "token", "probability", "text"), rows, title=title, right=("rank", "probability"))
    if len(found.masks) > 1:
        print_text(f"filled: {found.filled}\n")
