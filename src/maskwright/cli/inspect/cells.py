"""`maskwright inspect cells`: interpretable units of a recurrent network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from ..pages import PageOption, check_page

if TYPE_CHECKING:
    from ...models.model import Model


def cells(
    model: Annotated[str, typer.Argument(help="Recurrent language model: a folder, or a Hugging Face Hub model ID.")],
    text: Annotated[list[str], typer.Argument(help="Text: files, folders or globs.")],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Rule: quotes, line, depth, capitals, heading, comment or condition. Repeatable.  \\[default: all]",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        list[str] | None, typer.Option(help="Also draw this unit. Repeatable.", metavar="LAYER:UNIT")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of units to show per rule.")] = 3,
    max_tokens: Annotated[int, typer.Option(min=4, help="Maximum tokens to read.")] = 50_000,
    output: PageOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Find units that track quotes, line position, brackets, capitals, headings, comments or conditions.

    Units are selected by correlation with the rule on the first half of the text, and confirmed on the second half.
    The column "random weights" is the same search in an untrained network. With -o, the page colors the text by the
    best unit of each rule.

    Examples:

        maskwright inspect cells runs/lstm/model book.txt -o cells.html

        maskwright inspect cells runs/lstm/model book.txt --rule quotes --rule line --top 5

        maskwright inspect cells runs/lstm/model book.txt --unit 2:17 -o unit.html --json
    """
    from ...api import open_model
    from ...core.config import check
    from ...core.registry import unknown_name
    from ...inspect.cells import find_units, read_cells, untrained_like
    from ...inspect.cells_page import confirmed_text, headline, write_cells
    from ...inspect.rules import RULES
    from ...inspect.text import documents_of, tokens_of
    from ...models.model import tokenizer_of

    check_page(output)
    for name in rule or ():
        check(name in RULES, unknown_name("rule", name, RULES))
    set_threads(threads)
    loaded = open_model(model, ("clm",), device, "fp32")
    shown = [_unit(one, loaded) for one in unit or []]
    read = tokens_of(documents_of(text, skip_bad_rows=skip_bad_rows), tokenizer_of(loaded))
    readings = read_cells(loaded, read, max_tokens)
    untrained = read_cells(untrained_like(loaded), read, max_tokens)
    found = [one for name in rule or list(RULES) for one in find_units(readings, name, untrained, top)]
    if output is not None:
        write_cells(output, readings, found, shown, Path(model).name)
    if json:
        print_json({"tokens": len(readings.ends), "units": [one.to_json() for one in found]})
        return
    rows = [
        [one.rule, f"{one.layer}:{one.unit}", f"{one.searched:+.3f}", confirmed_text(one), f"{one.random:.3f}"]
        for one in found
    ]
    numbers = ["searched", "confirmed", "random weights"]
    print_table(["rule", "unit", *numbers], rows, right=numbers)
    print_text(headline(found))
    if output is not None:
        print_text(f"page: {output}")


def _unit(text: str, model: Model) -> tuple[int, int]:
    """Layer, from 1, and unit, from 0. Raises ConfigError."""
    from ...core.config import check

    layers, size = model.config.num_hidden_layers, model.config.direction_size
    layer, _, unit = text.partition(":")
    is_there = layer.isdecimal() and unit.isdecimal() and 1 <= int(layer) <= layers and int(unit) < size
    check(
        is_there, f"--unit is '{text}'; it must be a layer from 1 to {layers} and a unit from 0 to {size - 1}, as 1:0."
    )
    return int(layer), int(unit)
