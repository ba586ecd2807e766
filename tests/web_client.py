"""What tests of the servers share: requests with exact headers, and a server that runs in a thread."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import uvicorn

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """status, headers by lowercase name, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def request(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> Answer:
    """One request on a new connection, with these headers, and Host and Content-Length where none is given."""
    given = dict(headers or {})
    names = {name.lower() for name in given}
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.putrequest(method, path, skip_host="host" in names, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None and "content-length" not in names:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        found = connection.getresponse()
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
    finally:
        connection.close()


class Client:
    """Requests to a server on a port of this machine."""

    port: int

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Answer:
        """As the function `request`."""
        return request(self.port, method, path, body, headers, timeout)

    def own_headers(self) -> dict[str, str]:
        """Headers that `get` and `post` send."""
        return {}

    def get(self, path: str, **headers: str) -> Answer:
        """GET; an underscore in a header name stands for a hyphen."""
        return self.request("GET", path, None, {**self.own_headers(), **_named(headers)})

    def post(self, path: str, value: Any, **headers: str) -> Answer:
        """POST of JSON, or of bytes as they are."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.request(
            "POST", path, data, {"Content-Type": "application/json", **self.own_headers(), **_named(headers)}
        )

    def metrics(self) -> dict[str, float]:
        """The samples of /metrics; names with labels as they are written there."""
        lines = self.get("/metrics").body.decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def metric(self, name: str, text: str = "") -> float:
        """The sum of a metric over its labels that contain `text`."""
        found = self.metrics().items()
        return sum(value for key, value in found if key.partition("{")[0] == name and text in key)


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            found += data
    return found


def run_async(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread of its own: the browser of other tests keeps an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def in_thread(
    server: uvicorn.Server, listening: socket.socket, is_ready: Callable[[], bool] = lambda: True, seconds: float = 120
) -> Iterator[int]:
    """Runs a server in a thread until the block ends; gives its port once it has started and is ready."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + seconds
        while not (server.started and is_ready()) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        with suppress(OSError):
            listening.close()
