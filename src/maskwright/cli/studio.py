"""`maskwright studio`: pages in a browser that show what models do with your text as you type it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import MissingExtraError
from ..core.progress import note
from ..hub.published import ENGLISH
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
from .default_model import tell_default


def studio(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Model folders, or Hugging Face Hub model IDs.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Local port; 0 picks a free one.")] = 8765,
    runs: Annotated[Path, typer.Option(help="Folder of run folders.")] = Path("runs"),
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address and do not open a browser.")
    ] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Serve local web pages: tokens, masked-token predictions, similarity, layers, runs, training.

    Which pages there are depends on what the models can do. Without MODEL: the built-in model, english.

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

    if not models:
        tell_default("name others to add their pages")

    def tell(address: str) -> None:
        print_json({"address": address}) if json else print_text(address)
        note("This address is for you only, and works once: it carries a one-time key. Ctrl-C ends the studio.")

    run_studio(
        models or [ENGLISH],
        port,
        runs,
        open_browser=not no_browser,
        device=device,
        precision=precision,
        on_address=tell,
    )
