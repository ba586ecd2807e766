"""`maskwright inspect cells`: interpretable units of a recurrent network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...core.config import check, option
from ...core.util import DEVICE, THREADS, Device
from ...train.settings import SKIP_BAD_ROWS
from ..common import JsonFlag
from ..pages import Page, check_page, show_results
from ..settings import takes_settings
from ..using import CORPUS

if TYPE_CHECKING:
    from ...models.model import Model

NUMBERS = ("searched", "confirmed", "random weights")


@dataclass(frozen=True, kw_only=True)
class CellsSettings(Page):
    """Settings of `maskwright inspect cells`."""

    COMMAND: ClassVar[str] = "inspect cells"

    model: str = option(help="Recurrent language model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    text: tuple[str, ...] = option(help=CORPUS)
    rule: tuple[str, ...] = option(
        (),
        "Rule: quotes, line, depth, capitals, heading, comment or condition. Repeatable.",
        default_help="all",
    )
    unit: tuple[str, ...] = option((), "Also draw this unit. Repeatable.", metavar="LAYER:UNIT")
    top: int = option(3, "Number of units to show per rule.", minimum=1)
    max_tokens: int = option(50_000, "Maximum tokens to read.", minimum=4)
    device: Device = option("auto", DEVICE)
    threads: int | None = option(None, THREADS)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)


@takes_settings(CellsSettings)
def cells(settings: CellsSettings, json: JsonFlag = False) -> None:
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
    from ...core.registry import unknown_name
    from ...inspect.cells import RULES, find_units, read_cells, untrained_like
    from ...inspect.reports import confirmed_text, headline, write_cells
    from ...inspect.text import documents_of, tokens_of
    from ...models.model import tokenizer_of

    output, rules = settings.output, settings.rule or tuple(RULES)
    check_page(output)
    for name in rules:
        check(name in RULES, unknown_name("rule", name, RULES))
    model = open_model(settings.model, "predict-next", settings.device, "fp32")
    shown = [_unit(one, model) for one in settings.unit]
    read = tokens_of(documents_of(settings.text, skip_bad_rows=settings.skip_bad_rows), tokenizer_of(model))
    readings = read_cells(model, read, settings.max_tokens)
    untrained = read_cells(untrained_like(model), read, settings.max_tokens)
    found = [one for name in rules for one in find_units(readings, name, untrained, settings.top)]
    if output is not None:
        write_cells(output, readings, found, shown, Path(settings.model).name)
    as_json = {"tokens": len(readings.ends), "units": [one.to_json() for one in found]}
    rows = [
        [one.rule, f"{one.layer}:{one.unit}", f"{one.searched:+.3f}", confirmed_text(one), f"{one.random:.3f}"]
        for one in found
    ]
    show_results(settings, as_json, ["rule", "unit", *NUMBERS], rows, headline(found), json=json, right=NUMBERS)


def _unit(text: str, model: Model) -> tuple[int, int]:
    """Layer, from 1, and unit, from 0. Raises ConfigError."""
    layers, size = model.config.num_hidden_layers, model.config.direction_size
    layer, _, unit = text.partition(":")
    is_there = layer.isdecimal() and unit.isdecimal() and 1 <= int(layer) <= layers and int(unit) < size
    check(
        is_there, f"--unit is '{text}'; it must be a layer from 1 to {layers} and a unit from 0 to {size - 1}, as 1:0."
    )
    return int(layer), int(unit)
