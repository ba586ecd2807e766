"""`maskwright serve`: models over HTTP, for existing clients."""

from __future__ import annotations

from ..core.errors import MissingExtraError
from ..core.progress import note
from ..serve.settings import ServeSettings, read_settings
from .common import JsonFlag, print_json, print_text
from .pages import tell_default
from .settings import takes_settings

PACKAGES = ("fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client", "orjson")


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
    try:
        from ..serve.server import run_server
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in PACKAGES:
            raise MissingExtraError("The server", "serve") from None
        raise
    if not settings.models and not settings.model:
        tell_default("name others to serve them")

    def announce(address: str) -> None:
        models = [name for name, _ in settings.named_models]
        print_json({"address": address, "models": models}) if json else print_text(address)
        note(f"Ready: {', '.join(models)}. Ctrl-C finishes what is running and stops.")

    run_server(settings, announce)
