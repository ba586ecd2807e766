"""`maskwright vectors`: static word vectors from raw text, as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import (
    DebugFlag,
    JsonFlag,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    print_json,
    print_text,
)


def vectors(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders or globs.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
    method: Annotated[str, typer.Option(help="skip-gram guesses a word's neighbours, cbow the word from them.")] = (
        "skip-gram"
    ),
    size: Annotated[int, typer.Option(min=1, help="Numbers of a vector.")] = 100,
    window: Annotated[int, typer.Option(min=1, help="Words on either side, at most.")] = 5,
    min_count: Annotated[int, typer.Option(min=1, help="Words that are rarer are unknown.")] = 2,
    vocab_size: Annotated[int, typer.Option(min=16, help="Words, at most.")] = 30_000,
    epochs: Annotated[int, typer.Option(min=1, help="Times that the text is read.")] = 5,
    lowercase: Annotated[bool, typer.Option(help="Ignore case and accents.")] = True,
    seed: SeedOption = None,
    restart: Annotated[bool, typer.Option("--restart", help="Replace the folder if it is there.")] = False,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train one vector for each word of your text (word2vec). The folder works wherever an encoder does.

    Examples:

        maskwright vectors corpus.txt -o vec/

        maskwright vectors texts/ --method cbow --size 200 --epochs 10 -o vec/

        maskwright vectors corpus.txt --min-count 1 --seed 3 -o vec/ --json
    """
    from ..core.plural import plural
    from ..train.static_vectors import StaticConfig, train_static_vectors

    config = StaticConfig(
        tuple(corpus),
        output,
        method,  # type: ignore[arg-type]  # checked there
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
