"""Real sockets against a listening studio: silent, slow and greedy clients do not keep its owner out."""

import contextlib
import socket
import time

import pytest

from maskwright.http.connections import Limits
from studio.serving import Served, serving
from web_client import read_all

NARROW = Limits(connections=12, connections_per_client=8, header_seconds=60.0)  # a busy machine takes over 10 s
OTHER_CLIENT = "127.0.0.2"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), limits=NARROW) as found:
        yield found


@contextlib.contextmanager
def clients(served: Served, count: int, first: bytes = b"", address: str = "127.0.0.1"):
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(
                socket.create_connection(("127.0.0.1", served.port), timeout=10, source_address=(address, 0))
            )
            one.sendall(first)
            opened.append(one)
        yield opened


def head(served: Served, more: bytes = b"", path: bytes = b"/api/studio") -> bytes:
    lines = b"Host: 127.0.0.1:%d\r\nCookie: %s\r\n" % (served.port, served.cookie.encode())
    return b"GET " + path + b" HTTP/1.1\r\n" + lines + more


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: ", b"POST /api/tokens HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_silent_connections_do_not_lock_the_owner_out(served, first):
    with clients(served, 200, first):
        began = time.monotonic()
        for _ in range(5):
            assert served.get("/api/studio").status == 200
        assert time.monotonic() - began < 20


def test_one_client_has_fewer_connections_than_the_server(narrow):
    """A client of another address keeps its connection while the first opens too many: its own oldest are closed."""
    most = NARROW.connections_per_client
    with clients(narrow, 1, address=OTHER_CLIENT) as (kept,), clients(narrow, most + 3) as many:
        assert [read_all(one) for one in many[:3]] == [b""] * 3
        for one in (kept, *many[3:]):
            one.sendall(head(narrow) + b"Connection: close\r\n\r\n")
            assert read_all(one).startswith(b"HTTP/1.1 200 ")


def test_more_requests_than_can_be_computed_get_503_with_a_time(narrow):
    lines = b"Host: 127.0.0.1:%d\r\nCookie: %s\r\nOrigin: %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    asked = b"POST /api/tokens/learn HTTP/1.1\r\n" + lines
    asked %= (narrow.port, narrow.cookie.encode(), narrow.origin.encode())
    with clients(narrow, NARROW.connections_per_client, asked + b"{") as many:  # the last byte is still to come
        deadline = time.monotonic() + 10
        while (rejected := narrow.get("/api/studio")).status != 503 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert rejected.status == 503 and rejected.headers["retry-after"] == "1"
        assert "default-src 'none'" in rejected.headers["content-security-policy"]
        for one in many:
            one.sendall(b"}")
        assert all(read_all(one).startswith(b"HTTP/1.1 422 ") for one in many)
    assert narrow.get("/api/studio").status == 200


def test_a_body_that_does_not_arrive_in_time_is_refused_in_words(served, monkeypatch):
    from maskwright.studio import requests as asking

    monkeypatch.setattr(asking, "BODY_SECONDS", 0.2)
    lines = b"Host: 127.0.0.1:%d\r\nCookie: %s\r\nOrigin: %s\r\n" % (
        served.port,
        served.cookie.encode(),
        served.origin.encode(),
    )
    with clients(served, 1, b"POST /api/tokens/learn HTTP/1.1\r\n" + lines + b"Content-Length: 50\r\n\r\n{") as (one,):
        assert one.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
