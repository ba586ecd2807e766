"""`maskwright complexity`: what a layer costs as texts grow, published and measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import (
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

PageOption = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the page: an .html file.")]


def complexity(
    lengths: Annotated[
        str, typer.Option(help="Tokens of the texts, three or more numbers that rise.", metavar="N,N,...")
    ] = "128,256,512,1024,2048,4096",
    width: Annotated[int, typer.Option(min=1, help="Width of a token: d.")] = 64,
    filter_width: Annotated[int, typer.Option(min=1, help="Neighbours that a filter sees: k, odd.")] = 3,
    window: Annotated[int, typer.Option(min=1, help="Tokens that restricted attention sees: r.")] = 64,
    output: PageOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show what self-attention, recurrent, convolutional and restricted layers cost: the published table, operations,
    and the time of each on this machine with the fitted power of the length.

    Examples:

        maskwright complexity

        maskwright complexity --lengths 256,512,1024,2048 --width 128 --threads 1 -o complexity.html

        maskwright complexity --json
    """
    from ..models.device import resolve_device
    from ..speed.complexity import measure
    from ..speed.complexity_page import headline, table, write_complexity

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


def check_page(output: Path | None) -> None:
    """Raise ConfigError for a page that is no .html file, or that cannot be written where it shall be."""
    from ..core.config import check

    if output is None:
        return
    check(output.suffix.lower() == ".html", f"{output} is no page: give a name that ends in .html.")
    check(not output.is_dir(), f"{output} is a folder: give the name of a file.")
    nearest = next(part for part in output.absolute().parents if part.exists())
    check(nearest.is_dir(), f"{output} cannot be written: {nearest} is a file. Choose another folder.")


def _numbers(text: str) -> list[int]:
    from ..core.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--lengths is {text!r}; it must be numbers with commas between, as 128,256,512.") from None
