"""`maskwright complete`: some suggestions of how a text goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    in_a_line,
    print_json,
    print_table,
    set_threads,
)
from .using import WindowOption


def complete(
    model: Annotated[str, typer.Argument(help="A left-to-right model: a folder, or a name of the hub.")],
    text: Annotated[str, typer.Argument(help="What is written so far.")],
    suggestions: Annotated[int, typer.Option("-k", "--suggestions", help="How many.")] = 3,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of a suggestion, at most.")] = 8,
    max_length: WindowOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Suggest how a text may go on: each suggestion begins with another of the most probable tokens.

    Examples:

        maskwright complete runs/g/model "Neurocomputing is"

        maskwright complete runs/g/model "The river was" -k 5 --max-new-tokens 4 --json
    """
    set_threads(threads)
    from ..api import open_generator

    generator = open_generator(model, max_length=max_length, device=device, precision=precision)
    found = generator.complete(text, suggestions, max_new_tokens)
    if json:
        print_json({"text": text, "suggestions": [one.to_json() for one in found]})
        return
    rows = [(number, f"{one.score:.2f}", in_a_line(f"{text}{one.text}")) for number, one in enumerate(found, start=1)]
    print_table(("", "log probability", "text"), rows, right=("log probability",))
