"""`maskwright bench complexity`: cost of each layer type by sequence length, published and measured."""

from __future__ import annotations

from typing import Annotated

import typer

from ..common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from ..pages import PageOption, check_page


def complexity(
    lengths: Annotated[
        str, typer.Option(help="Sequence lengths in tokens, at least three, increasing.", metavar="N,N,...")
    ] = "128,256,512,1024,2048,4096",
    width: Annotated[int, typer.Option(min=1, help="Hidden size d.")] = 64,
    filter_width: Annotated[int, typer.Option(min=1, help="Filter width k in tokens, odd.")] = 3,
    window: Annotated[int, typer.Option(min=1, help="Window r of restricted attention, in tokens.")] = 64,
    output: PageOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compare the cost of self-attention, recurrent, convolutional and restricted layers by sequence length.

    Shows the published complexity, operation counts, and measured times with the fitted exponent of the length.

    Examples:

        maskwright bench complexity

        maskwright bench complexity --lengths 256,512,1024,2048 --width 128 --threads 1 -o complexity.html

        maskwright bench complexity --json
    """
    from ...models.device import resolve_device
    from ...speed.complexity import measure
    from ...speed.complexity_page import headline, table, write_complexity

    sizes = _numbers(lengths)
    check_page(output)
    set_threads(threads)
    found = measure(sizes, width, filter_width, window, str(resolve_device(device)))
    if output is not None:
        write_complexity(output, sizes, width, found)
    if json:
        print_json({"lengths": sizes, "width": width, "layers": [one.to_json() for one in found]})
        return
    columns, rows = table(sizes, found)
    print_table(columns, rows, right=columns[4:])
    print_text(headline(found))
    if output is not None:
        print_text(f"page: {output}")


def _numbers(text: str) -> list[int]:
    from ...core.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--lengths is {text!r}; it must be numbers with commas between, as 128,256,512.") from None
