"""A listening studio for tests: raw requests, requests with its cookie, and small loaded models."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'studio' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'studio' is not installed")

import uvicorn

from maskwright.http.limits import Limits
from maskwright.http.listen import listen
from maskwright.studio.guard import Keys
from maskwright.studio.model_registry import Studio, load_models
from maskwright.studio.server import LIMITS, server_config


@dataclass
class Answer:
    """status, headers by small name, body; `json()` reads it."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Served:
    """A running studio."""

    studio: Studio
    port: int
    keys: Keys = field(repr=False)
    cookie: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def first_address(self) -> str:
        """An address with a key that nobody used."""
        return f"{self.origin}/?key={self.keys.issue()}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request with exactly these headers, and Host where none is given."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            found = connection.getresponse()
            return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """As the studio's own page asks."""
        return self.request("GET", path, headers={"Cookie": self.cookie, **headers})

    def post(self, path: str, value: Any) -> Answer:
        """JSON, or bytes as they are, as the studio's own page sends them."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.request("POST", path, data, {"Cookie": self.cookie, "Origin": self.origin})

    def raw(self, data: bytes) -> bytes:
        """Bytes in, the first bytes that come back out; b"" where the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(data)
            connection.settimeout(10)
            try:
                return connection.recv(65536)
            except ConnectionError:
                return b""


@contextmanager
def serving(runs: Path, *models: str | Path, limits: Limits = LIMITS) -> Iterator[Served]:
    """A studio of these model folders, listening until the block ends."""
    studio = Studio(load_models([str(model) for model in models], "cpu", "fp32"), runs, "cpu", "fp32")
    listening = listen(0)
    port = listening.getsockname()[1]
    keys = Keys()
    server = uvicorn.Server(server_config(studio, port, keys, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    served = Served(studio, port, keys)
    try:
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        exchanged = served.request("GET", f"/?key={keys.issue()}")
        served.cookie = exchanged.headers["set-cookie"].partition(";")[0]
        yield served
    finally:
        studio.jobs.stop_all()
        server.should_exit = True
        thread.join(30)
        listening.close()
