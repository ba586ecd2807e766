"""Starts the studio: loads models, listens on the loopback address, announces the URL with its key, serves."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from html import escape
from pathlib import Path

import uvicorn

from ..core import storage
from ..core.progress import note
from ..http.connections import LOOPBACK, Limits, listen, uvicorn_config
from .app import make_app, static_files
from .guard import KEY, Guard, Keys
from .model_registry import Studio, load_models

LIMITS = Limits()


def run_studio(
    models: Sequence[str],
    port: int,
    runs: Path,
    *,
    open_browser: bool = True,
    device: str = "auto",
    precision: str = "auto",
    on_address: Callable[[str], None] = note,
) -> None:
    """Serves the pages until the process is interrupted, then asks its training runs to save and stop.

    Args:
        models: Model folders or Hugging Face Hub model IDs.
        port: Port to listen on; 0 selects any free port.
        runs: Directory of run folders.
        open_browser: Whether to open the first page in a browser.
        device: Device to compute on.
        precision: Precision (dtype) of the models.
        on_address: Called with the first URL, and with a new one each time the last was opened: each key works once.

    Raises:
        RunError: The port is in use.
    """
    studio = Studio(load_models(models, device, precision), runs, device, precision)
    static_files()  # cached before the first request
    listening = listen(port)
    number = listening.getsockname()[1]
    keys = Keys()

    def address(on_spent: Callable[[], None] | None = None) -> str:
        return f"http://{LOOPBACK}:{number}/?{KEY}={keys.issue(on_spent)}"

    def announce_next() -> None:
        with suppress(OSError):  # a closed terminal must not fail the request
            on_address(address(announce_next))

    server = uvicorn.Server(server_config(studio, number, keys))
    on_address(address(announce_next))
    try:
        with redirect_file(address()) if open_browser else nullcontext() as file:
            if file is not None:
                webbrowser.open(file.as_uri())
            server.run(sockets=[listening])
    finally:
        studio.jobs.stop_all()
        listening.close()


@contextmanager
def redirect_file(address: str) -> Iterator[Path]:
    """Creates an HTML file, readable only by its owner, that redirects to `address`; removes it on exit.

    The browser opens this file instead of the URL: other users can read a process's command line, but not the file.
    """
    with tempfile.TemporaryDirectory(prefix="maskwright-studio-") as folder:
        path = Path(folder) / "open.html"
        link = escape(address)
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}">'
        storage.write_text(path, f'{page}<a href="{link}">Maskwright studio</a>\n', private=True)
        yield path


def server_config(studio: Studio, port: int, keys: Keys, limits: Limits = LIMITS) -> uvicorn.Config:
    """Returns the uvicorn configuration: no access log, no WebSockets, `limits` on headers and connections."""
    guarded = Guard(make_app(studio), port, keys)
    return uvicorn_config(guarded, limits, lifespan="off", timeout_graceful_shutdown=5)
