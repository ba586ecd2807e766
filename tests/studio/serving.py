"""A listening studio for tests: raw requests, requests with its cookie, and small loaded models."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'studio' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'studio' is not installed")

import uvicorn

from maskwright.http.connections import Limits, listen
from maskwright.studio.app import LIMITS, server_config
from maskwright.studio.guard import Keys
from maskwright.studio.model_registry import Studio, load_models
from web_client import Answer, Client, in_thread


@dataclass
class Served(Client):
    studio: Studio
    port: int
    keys: Keys = field(repr=False)
    cookie: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def first_address(self) -> str:
        """An address with a key that nobody used."""
        return f"{self.origin}/?key={self.keys.issue()}"

    def own_headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie}

    def post(self, path: str, value: Any, **headers: str) -> Answer:
        return super().post(path, value, **{"Origin": self.origin, **headers})

    def raw(self, data: bytes) -> bytes:
        """Bytes in, what comes back out until nothing more comes for 0.2 seconds; b"" for a closed connection."""
        found = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(data)
            with suppress(ConnectionError, TimeoutError):
                while part := connection.recv(65536):
                    found += part
                    connection.settimeout(0.2)
        return found


@contextmanager
def serving(runs: Path, *models: str | Path, limits: Limits = LIMITS) -> Iterator[Served]:
    """A studio of these model folders, listening until the block ends."""
    studio = Studio(load_models([str(model) for model in models], "cpu", "fp32"), runs, "cpu", "fp32")
    listening, keys = listen(0), Keys()
    server = uvicorn.Server(server_config(studio, listening.getsockname()[1], keys, limits))
    with in_thread(server, listening) as port:
        served = Served(studio, port, keys)
        try:
            exchanged = served.request("GET", f"/?key={keys.issue()}")
            served.cookie = exchanged.headers["set-cookie"].partition(";")[0]
            yield served
        finally:
            studio.jobs.stop_all()
