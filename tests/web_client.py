"""What tests of the servers share: requests with exact headers, and a server that runs in a thread."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


def request(port, method, path, body=None, headers=None, timeout=60):
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
    port: int

    def request(self, method, path, body=None, headers=None, timeout=60):
        return request(self.port, method, path, body, headers, timeout)

    def own_headers(self):
        return {}

    def get(self, path, **headers):
        """GET; an underscore in a header name stands for a hyphen."""
        return self.request("GET", path, None, {**self.own_headers(), **_named(headers)})

    def post(self, path, value, **headers):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.request(
            "POST", path, data, {"Content-Type": "application/json", **self.own_headers(), **_named(headers)}
        )

    def metrics(self):
        """The samples of /metrics; names with labels as they are written there."""
        lines = self.get("/metrics").body.decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def metric(self, name, text=""):
        """The sum of a metric over its labels that contain `text`."""
        found = self.metrics().items()
        return sum(value for key, value in found if key.partition("{")[0] == name and text in key)


def _named(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


def read_all(connection):
    found = b""
    with suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            found += data
    return found


def until(happens, seconds=30):
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def run_async(coroutine):
    """Run a coroutine in a thread of its own: the browser of other tests keeps an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def in_thread(server, listening, is_ready=lambda: True, seconds=120):
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
