"""Slow and silent clients: their connections are closed, and the others do not notice."""

import contextlib
import socket
import statistics
import threading
import time

import pytest

from serve.fuzzing import statuses
from serve.server_process import running
from serve.small_models import write_models

pytestmark = pytest.mark.slow
SILENT, REQUESTS = 200, 100
HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    options = write_models(tmp_path_factory.mktemp("models"), "vectors")
    with running(*options, "--precision", "fp32", "--no-access-log") as found:
        yield found


def times(server) -> list[float]:
    found = []
    for _ in range(REQUESTS):
        began = time.monotonic()
        assert server.post("/embed", {"inputs": "the cat sat"}).status == 200
        found.append(time.monotonic() - began)
    return found


@contextlib.contextmanager
def slow_clients(server, first: bytes, drip: bytes):
    """200 connections that have sent `first` and send a few more bytes each second."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(SILENT):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            one.sendall(first)
            opened.append(one)
        ended = threading.Event()

        def drop() -> None:
            while not ended.wait(1):
                for one in opened:
                    with contextlib.suppress(OSError):
                        one.sendall(drip)

        thread = threading.Thread(target=drop, daemon=True)
        thread.start()
        try:
            yield opened
        finally:
            ended.set()
            thread.join(10)


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b""),
        (HEAD, b"X-A: b\r\n"),
        (HEAD + b"Content-Length: 1000\r\n\r\n{", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["silent", "header", "body", "chunks"],
)
def test_two_hundred_slow_clients_do_not_slow_the_others(server, first, drip):
    """The median may be several times as long: other programs use this machine too."""
    usual = statistics.median(times(server))
    with slow_clients(server, first, drip):
        assert statistics.median(times(server)) < 5 * usual + 0.2
    assert server.is_alive


def dripped(server, first: bytes, drip: bytes, every: float, longest: float) -> tuple[bytes, float]:
    """The response to a client that sends `drip` every so many seconds, and the seconds until the connection ends."""
    began = time.monotonic()
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
        one.sendall(first)
        one.settimeout(every)
        while time.monotonic() - began < longest:
            try:
                part = one.recv(4096)
            except TimeoutError:
                with contextlib.suppress(OSError):
                    one.sendall(drip)
                continue
            except ConnectionError:
                break
            if not part:
                break
            found += part
    return found, time.monotonic() - began


@pytest.mark.parametrize(
    ("first", "drip", "every", "longest"),
    [(HEAD, b"X-A: b\r\n", 0.5, 20), (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n \r\n", 1, 45)],
)
def test_what_drips_ends_with_408_within_its_time(server, first, drip, every, longest):
    found, seconds = dripped(server, first, drip, every, longest + 5)
    assert 5 < seconds < longest and statuses(found) in ([408], [])
