"""A server on a loopback socket in this process, with small models of each kind."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
pytest.importorskip("orjson", reason="the extra 'serve' is not installed")
pytest.importorskip("prometheus_client", reason="the extra 'serve' is not installed")

from maskwright.serve.app import create_app
from maskwright.serve.server import Server, open_socket, server_config
from maskwright.serve.service import LOADING, Service
from maskwright.serve.settings import ServeSettings


@dataclass
class Reply:
    """status, headers by small name, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Served:
    """A running server."""

    service: Service
    port: int

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request on its own connection."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            return Reply(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """GET; an underscore in a header name stands for a hyphen."""
        return self.request("GET", path, headers={name.replace("_", "-"): one for name, one in headers.items()})

    def post(self, path: str, value: Any, **headers: str) -> Reply:
        """POST of JSON, or of bytes as they are."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        named = {name.replace("_", "-"): one for name, one in headers.items()}
        return self.request("POST", path, data, {"Content-Type": "application/json", **named})

    def counts(self, name: str, text: str = "") -> float:
        """Sum of the samples of a metric whose labels contain `text`."""
        lines = self.get("/metrics").body.decode().splitlines()
        found = [line for line in lines if line.partition(" ")[0].partition("{")[0] == name and text in line]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def connect(self) -> socket.socket:
        """A raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def serving(**settings: Any) -> Iterator[Served]:
    """A ready server with these settings, in float32, until the block ends."""
    chosen = ServeSettings(port=0, device="cpu", precision="fp32", **settings)
    app = create_app(chosen)
    service: Service = app.state.service
    listening = open_socket(chosen)
    server = Server(server_config(app, chosen))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 120
        while (not server.started or service.phase == LOADING) and time.monotonic() < deadline:
            time.sleep(0.01)
        if service.failure is not None:
            raise service.failure
        yield Served(service, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        with suppress(OSError):
            listening.close()
