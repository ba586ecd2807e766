"""`maskwright vectors`: train static word embeddings (word2vec)."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core.util import plural
from ..train.pretraining.config import StaticConfig
from .common import JsonFlag, print_json, print_text
from .settings import print_next, takes_settings
from .similarity import SimilaritySettings


@takes_settings(StaticConfig)
def vectors(
    settings: StaticConfig,
    restart: Annotated[bool, typer.Option("--restart", help="Replace an existing output folder.")] = False,
    json: JsonFlag = False,
) -> None:
    """Train static word embeddings (word2vec). The output folder works like an encoder.

    Examples:

        maskwright vectors corpus.txt -o vec/

        maskwright vectors texts/ --method cbow --size 200 --epochs 10 -o vec/

        maskwright vectors corpus.txt --min-count 1 --seed 3 -o vec/ --json
    """
    from ..train.against_baseline import health_line
    from ..train.pretraining.static_embeddings import train_static_vectors

    result = train_static_vectors(settings, replace_folder=restart)
    if json:
        print_json(result.to_json())
        return
    print_text(
        f"{plural(result.words, 'word has a vector', 'words have vectors')}; {result.unknown:.1%} of "
        f"{plural(result.tokens, 'word')} of the text do not."
    )
    print_text(health_line([result.verdict], advice="Raise --epochs, or pass more text."))
    print_text(f"model:  {result.model}")
    print_next(SimilaritySettings, model=str(result.model), texts=("a text", "another"))
