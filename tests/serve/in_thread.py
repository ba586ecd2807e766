"""A server on a loopback socket in this process, with small models of each kind."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
pytest.importorskip("orjson", reason="the extra 'serve' is not installed")
pytest.importorskip("prometheus_client", reason="the extra 'serve' is not installed")

from maskwright.serve.server import Server, create_app, open_socket, server_config
from maskwright.serve.service import LOADING, Service
from maskwright.serve.settings import ServeSettings
from web_client import Client, in_thread


@dataclass
class Served(Client):
    service: Service
    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def serving(**settings: Any) -> Iterator[Served]:
    """A ready server with these settings, in float32, until the block ends."""
    chosen = ServeSettings(port=0, device="cpu", precision="fp32", **settings)
    app = create_app(chosen)
    service: Service = app.state.service
    server = Server(server_config(app, chosen))
    with in_thread(server, open_socket(chosen), lambda: service.phase != LOADING) as port:
        if service.failure is not None:
            raise service.failure
        yield Served(service, port)
