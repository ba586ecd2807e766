"""`maskwright vectors`: train static word embeddings (word2vec)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .common import DebugFlag, JsonFlag, QuietFlag, SeedOption, SkipBadRowsFlag, print_json, print_text


def vectors(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders or globs.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Output model folder.")],
    method: Annotated[
        Literal["skip-gram", "cbow"],
        typer.Option(help="Training objective: skip-gram or continuous bag of words (cbow)."),
    ] = "skip-gram",
    size: Annotated[int, typer.Option(min=1, help="Embedding dimensions.")] = 100,
    window: Annotated[int, typer.Option(min=1, help="Maximum context words on each side.")] = 5,
    min_count: Annotated[int, typer.Option(min=1, help="Minimum word frequency.")] = 2,
    vocab_size: Annotated[int, typer.Option(min=16, help="Maximum vocabulary size.")] = 30_000,
    epochs: Annotated[int, typer.Option(min=1, help="Number of training epochs.")] = 5,
    lowercase: Annotated[bool, typer.Option(help="Ignore case and accents.")] = True,
    seed: SeedOption = None,
    restart: Annotated[bool, typer.Option("--restart", help="Replace an existing output folder.")] = False,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train static word embeddings (word2vec). The output folder works like an encoder.

    Examples:

        maskwright vectors corpus.txt -o vec/

        maskwright vectors texts/ --method cbow --size 200 --epochs 10 -o vec/

        maskwright vectors corpus.txt --min-count 1 --seed 3 -o vec/ --json
    """
    from ..core.plural import plural
    from ..train.pretraining.static_embeddings import StaticConfig, train_static_vectors

    config = StaticConfig(
        tuple(corpus),
        output,
        method,
        size,
        window,
        min_count,
        vocab_size,
        epochs,
        lowercase,
        seed or 0,
        skip_bad_rows,
    )
    result = train_static_vectors(config, replace_folder=restart)
    if json:
        print_json(result.to_json())
        return
    print_text(
        f"{plural(result.words, 'word has a vector', 'words have vectors')}; {result.unknown:.1%} of "
        f"{plural(result.tokens, 'word')} of the text do not."
    )
    print_text(f"model: {result.model}")
    print_text(f'next:  maskwright similarity {result.model} "a text" "another"')
