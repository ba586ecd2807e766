"""Opening the studio: models, a socket on this machine alone, the address with its key, a server until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from ..core.errors import RunError
from ..core.progress import note
from .app import make_app, static_files
from .guard import KEY
from .shelf import Studio, open_shelf

HOST = "127.0.0.1"
HEADER_BYTES = 16 << 10
CONNECTIONS = 64


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
    """Serve the pages until the process is told to stop; trainings that it began are then told to save and stop.

    models: folders or hub names; port: 0 for any that is free; runs: where run folders are; on_address: given the first
    address, which carries the key. Raises RunError when the port is taken.
    """
    studio = Studio(open_shelf(models, device, precision), runs, device, precision)
    static_files()  # read before the first page is asked for
    listening = listen(port)
    number = listening.getsockname()[1]
    key = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{number}/?{KEY}={key}"
    server = uvicorn.Server(server_config(studio, number, key))
    on_address(address)
    if open_browser:
        webbrowser.open(address)
    try:
        server.run(sockets=[listening])
    finally:
        studio.jobs.stop_all()
        listening.close()


def server_config(studio: Studio, port: int, key: str) -> uvicorn.Config:
    """How uvicorn serves the studio: no log of requests, small headers, few connections, no web sockets."""
    return uvicorn.Config(
        make_app(studio, port, key),
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        h11_max_incomplete_event_size=HEADER_BYTES,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
    )


def listen(port: int) -> socket.socket:
    """A socket of this machine alone. Raises RunError when another program has the port."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(128)  # so that a browser which is faster than the server waits
    except OSError as error:
        found.close()
        raise RunError(f"Port {port} cannot be used ({error.strerror}): give another with --port, or 0.") from None
    return found
