"""`maskwright studio`: pages in a browser that show what models do with your text as you type it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import MissingExtraError
from ..core.progress import note
from .common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_text,
    set_threads,
)


def studio(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Model folders, or names of the hub.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of this machine; 0 for any that is free.")] = 8765,
    runs: Annotated[Path, typer.Option(help="Folder of run folders: the only one that pages read and write.")] = Path(
        "runs"
    ),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no page.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Open pages in the browser, on this machine alone: tokens, filled masks, answers, meaning, layers, runs, training.

    Which pages there are depends on what the models can do. Without a model: tokens, runs, lessons.

    Examples:

        maskwright studio runs/mini/model runs/tickets/model

        maskwright studio runs/mini/model --port 8888 --no-browser

        maskwright studio --runs runs
    """
    set_threads(threads)
    try:
        from ..studio.server import run_studio
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in ("fastapi", "starlette", "uvicorn", "pydantic"):
            raise MissingExtraError("The studio", "studio") from None
        raise

    def tell(address: str) -> None:
        print_json({"address": address}) if json else print_text(address)
        note("This address is for you alone: it carries the key. Ctrl-C ends the studio.")

    run_studio(
        models or [], port, runs, open_browser=not no_browser, device=device, precision=precision, on_address=tell
    )
