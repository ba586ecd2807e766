"""Bounds on headers, pipelined requests, and the listening socket of the server and of the studio."""

import asyncio
import contextlib
import re
import socket
import time
from dataclasses import dataclass

import pytest

pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
pytest.importorskip("httptools", reason="the extra 'serve' is not installed")

import uvicorn

from maskwright.http.connections import Limits, RequestLimits, limited_protocol, listen
from web_client import in_thread, run_async

LIMITS = Limits(header_seconds=2.0)  # more than a busy machine needs
OK = b"HTTP/1.1 200 "


@dataclass
class Echo:
    """port: of a server that answers with the length of the body and the number of headers."""

    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


async def echo(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = b"%d bytes, %d headers" % (size, len(scope["headers"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def server():
    config = uvicorn.Config(
        RequestLimits(echo, LIMITS), http=limited_protocol(LIMITS), ws="none", lifespan="off", log_level="error"
    )
    with in_thread(uvicorn.Server(config), listen(0)) as port:
        yield Echo(port)


def answer(connection: socket.socket) -> bytes:
    """The next response, b"" for a closed connection; its header and its body may arrive apart."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while not is_whole(found) and (part := connection.recv(4096)):
            found += part
    return found


def is_whole(response: bytes) -> bool:
    """Whether a response has its whole header and the body that its Content-Length states."""
    header, end, body = response.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", header, re.IGNORECASE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def lines(count: int) -> bytes:
    return b"".join(b"X-%d: a\r\n" % number for number in range(count))


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (lines(99), 200),
        (lines(100), 431),
        (b"X: " + b"a" * 15_000 + b"\r\n", 200),
        (b"X: " + b"a" * 16_500 + b"\r\n", 431),
        (b"X: " + b"a" * 300_000 + b"\r\n", 431),
        (b"X" * 20_000 + b": a\r\n", 431),
    ],
    ids=["100 lines", "101 lines", "15 kB", "16.5 kB", "300 kB", "long name"],
)
@pytest.mark.parametrize("pause", [0, 0.05], ids=["at once", "in two parts"])
def test_complete_headers(server, more, status, pause):
    data = b"GET / HTTP/1.1\r\nHost: a\r\n" + more + b"\r\n"
    with server.connect() as one, contextlib.suppress(ConnectionError):
        one.sendall(data[:-4])
        time.sleep(pause)
        one.sendall(data[-4:])
        found = answer(one)
        assert found.startswith(b"HTTP/1.1 %d " % status) or (found == b"" and status == 431)


@pytest.mark.parametrize(
    "start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n"], ids=["url", "one", "lines"]
)
def test_headers_that_do_not_end(server, start):
    part = b"X-A: " + b"a" * 993 + b"\r\n" if start.endswith(b"1.1\r\n") else b"a" * 1000
    sent = len(start)
    with server.connect() as one:
        one.sendall(start)
        with contextlib.suppress(OSError):
            while sent < 3_000_000:
                one.sendall(part)
                sent += len(part)
                time.sleep(0.0005)
        found = answer(one)
    assert sent < 1_000_000
    assert found == b"" or found.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


def test_a_header_after_a_body_has_its_own_count(server):
    body = b"a" * 60_000
    first = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    second = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9_000
    with server.connect() as one:
        one.sendall(first + second)
        found = answer(one)
        assert found.startswith(OK) and b"60000 bytes" in found
        one.sendall(b"\r\n\r\n")
        assert answer(one).startswith(OK)


def test_trailers_are_no_headers(server):
    with server.connect() as one:
        one.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Api: b\r\n\r\n")
        assert b"1 bytes, 2 headers" in answer(one)
        one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"0 bytes, 1 headers" in answer(one)


def test_a_request_to_upgrade_is_answered_with_its_body(server):
    """Some clients offer HTTP/2 with each request."""
    lines = b"Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with server.connect() as one:
        for _ in range(2):
            one.sendall(b"POST / HTTP/1.1\r\n" + lines + b"Content-Length: 4\r\n\r\nabcd")
            assert b"4 bytes" in answer(one)


def test_half_a_header_gets_408_and_a_silent_connection_nothing(server):
    with server.connect() as half, server.connect() as silent:
        half.sendall(b"GET / HTTP/1.1\r\nHost: a")
        began = time.monotonic()
        assert answer(half).startswith(b"HTTP/1.1 408 ") and answer(silent) == b""
        assert 0.5 < time.monotonic() - began < 30


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as one:
        one.sendall(
            b"".join(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % n + b"a" * n for n in range(5))
        )
        found = b""
        while found.count(OK) < 5 or not found.endswith(b"headers"):
            part = one.recv(4096)
            assert part
            found += part
    places = [found.index(b"%d bytes" % count) for count in range(5)]
    assert places == sorted(places)


def test_small_parts_of_a_response_are_sent_at_once():
    """Without TCP_NODELAY the body waits for the acknowledgment of the headers, which clients delay by 40 ms."""

    async def option_of_a_connection() -> int:
        found = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            found.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen(0)
        async with await asyncio.start_server(answer, sock=listening):
            _, client = await asyncio.open_connection(*listening.getsockname())
            option = await found
            client.close()
        return option

    assert run_async(option_of_a_connection()) != 0
