"""`maskwright studio`: pages in a browser that show what models do with your text as you type it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import option
from ..core.errors import MissingExtraError
from ..core.progress import note
from ..hub.published import MANIFESTS
from .common import JsonFlag, print_json, print_text
from .settings import takes_settings
from .using import Hardware


@dataclass(frozen=True, kw_only=True)
class StudioSettings(Hardware):
    """Settings of `maskwright studio`."""

    COMMAND: ClassVar[str] = "studio"

    models: tuple[str, ...] = option(
        (), "Model folders, or Hugging Face Hub model IDs.", is_argument=True, metavar="[MODEL]..."
    )
    port: int = option(8765, "Local port; 0 picks a free one.", minimum=0, maximum=65535)
    runs: Path = option(Path("runs"), "Folder that contains the runs.")
    no_browser: bool = option(False, "Print the address and do not open a browser.")


@takes_settings(StudioSettings)
def studio(settings: StudioSettings, json: JsonFlag = False) -> None:
    """Serve local web pages: tokens, masked-token predictions, similarity, layers, runs, training.

    Which pages there are depends on what the models can do. Without MODEL: the built-in model, english, and its task
    adapters.

    Examples:

        maskwright studio runs/mini/model runs/tickets/model

        maskwright studio runs/mini/model --port 8888 --no-browser

        maskwright studio --runs runs
    """
    try:
        from ..studio.server import run_studio
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in ("fastapi", "starlette", "uvicorn", "pydantic"):
            raise MissingExtraError("The studio", "studio") from None
        raise

    if not settings.models:
        note("Models: english and its adapters, which are built in (name others to show those).")

    def announce(address: str) -> None:
        print_json({"address": address}) if json else print_text(address)
        note("This address is for you only, and works once: it carries a one-time key. Ctrl-C ends the studio.")

    run_studio(
        list(settings.models) or list(MANIFESTS),
        settings.port,
        settings.runs,
        open_browser=not settings.no_browser,
        device=settings.device,
        precision=settings.precision,
        on_address=announce,
    )
