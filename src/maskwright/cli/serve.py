"""`maskwright serve` and `studio`: models over HTTP, for existing clients and for a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import option
from ..core.errors import MissingExtraError
from ..core.progress import note
from ..hub.published import MANIFESTS
from ..serve.settings import ServeSettings, read_settings
from .common import JsonFlag, print_json, print_text
from .settings import takes_settings, tell_default
from .using import Hardware

PACKAGES = ("fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client", "orjson")


@contextmanager
def _extra(need: str, extra: str) -> Iterator[None]:
    """Imports that need an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in PACKAGES:
            raise MissingExtraError(need, extra) from None
        raise


@takes_settings(ServeSettings, read=read_settings, has_recipe=True)
def serve(settings: ServeSettings, json: JsonFlag = False) -> None:
    """Serve models over HTTP: embeddings, classes, tags, answers, masked tokens, generation, translation.

    Clients of Text Embeddings Inference, OpenAI and Hugging Face work unchanged; /docs describes all routes. Requests
    of all clients share batches without padding. Without MODEL: the built-in model, english.

    Examples:

        maskwright serve

        maskwright serve runs/tickets/model --port 9000

        maskwright serve --model search=minilm --model ner=runs/ner/model

        maskwright serve --config serve.toml --print-config
    """
    with _extra("The server", "serve"):
        from ..serve.server import run_server
    if not settings.models and not settings.model:
        tell_default("name others to serve them")

    def announce(address: str) -> None:
        models = [name for name, _ in settings.named_models]
        print_json({"address": address, "models": models}) if json else print_text(address)
        note(f"Ready: {', '.join(models)}. Ctrl-C finishes what is running and stops.")

    run_server(settings, announce)


@dataclass(frozen=True, kw_only=True)
class StudioSettings(Hardware):
    """Settings of `maskwright studio`."""

    COMMAND: ClassVar[str] = "studio"

    models: tuple[str, ...] = option(
        (), "Model folders, or Hugging Face Hub model IDs.", is_argument=True, metavar="MODEL"
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
    with _extra("The studio", "studio"):
        from ..studio.app import run_studio
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
