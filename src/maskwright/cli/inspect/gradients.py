"""`maskwright inspect gradients`: decay of the gradient of a recurrent network with distance."""

from __future__ import annotations

from typing import Annotated

import typer

from ..common import (
    DebugFlag,
    JsonFlag,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from ..pages import PageOption, check_page


def gradients(
    models: Annotated[
        list[str], typer.Argument(help="Recurrent language models: folders, or Hugging Face Hub model IDs.")
    ],
    text: Annotated[list[str] | None, typer.Option("--text", help="Text file, folder or glob. Repeatable.")] = None,
    distance: Annotated[int, typer.Option(min=2, help="Maximum distance in tokens.")] = 50,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Also measure the networks with random weights.")
    ] = False,
    output: PageOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Measure how the gradient of the loss decays with distance in recurrent networks.

    Examples:

        maskwright inspect gradients runs/rnn/model runs/lstm/model --text book.txt -o gradients.html

        maskwright inspect gradients runs/lstm/model --text book.txt --untrained --distance 100 --json
    """
    from ...api import open_model
    from ...core.errors import ConfigError
    from ...inspect.gradients import fading
    from ...inspect.gradients_page import half_text, headline, write_gradients
    from ...inspect.text import documents_of, tokens_of
    from ...models.build import build
    from ...models.model import tokenizer_of

    if not text:
        raise ConfigError("Pass --text FILE with text for the networks.")
    check_page(output)
    set_threads(threads)
    documents, found = documents_of(text, skip_bad_rows=skip_bad_rows), []
    for place in models:
        model = open_model(place, ("clm",), "cpu", "fp32")
        ids = tokens_of(documents, tokenizer_of(model)).ids.tolist()
        found.append(fading(model, ids, distance, place))
        if untrained:
            fresh = build(model.config, "clm", seed=seed or 0)
            found.append(fading(fresh, ids, distance, f"{place}, untrained"))
    if output is not None:
        write_gradients(output, found)
    if json:
        print_json([one.to_json() for one in found])
        return
    rows = [[one.name, f"{one.factor:.3f}", half_text(one), f"{one.norms[-1]:.2g}"] for one in found]
    print_table(["network", "a step multiplies by", "half is left after", f"left after {distance}"], rows)
    print_text(headline(found))
    if output is not None:
        print_text(f"page: {output}")
