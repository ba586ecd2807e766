"""Real sockets against a listening studio: silent, slow and greedy clients do not keep its owner out."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from maskwright.http.connections import Limits
from studio.serving import Served, serving
from web_client import read_all

FAST = Limits(header_seconds=1, idle_seconds=1, write_seconds=1)
NARROW = Limits(connections=12, connections_per_client=8, header_seconds=60.0)  # a busy machine takes over 10 s
OTHER_CLIENT = "127.0.0.2"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """With the limits that users have."""
    with serving(tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """With short times."""
    with serving(tmp_path_factory.mktemp("runs"), limits=FAST) as found:
        yield found


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """With few connections."""
    with serving(tmp_path_factory.mktemp("runs"), limits=NARROW) as found:
        yield found


@contextlib.contextmanager
def clients(served: Served, count: int, first: bytes = b"", address: str = "127.0.0.1"):
    """Open connections that have sent `first`."""
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
    """A request of the studio's own page, up to its empty line."""
    lines = b"Host: 127.0.0.1:%d\r\nCookie: %s\r\n" % (served.port, served.cookie.encode())
    return b"GET " + path + b" HTTP/1.1\r\n" + lines + more


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: ", b"POST /api/tokens HTTP/1.1\r\nHost: x\r\n\r\n"])
@pytest.mark.parametrize("count", [63, 200])
def test_silent_connections_do_not_lock_the_owner_out(served, first, count):
    with clients(served, count, first):
        began = time.monotonic()
        for _ in range(5):
            assert served.get("/api/studio").status == 200
        assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    ("sent", "answer"), [(b"", b""), (b"GET / HTTP/1.1\r\nHost: 127", b"HTTP/1.1 408 ")], ids=["silent", "half"]
)
def test_a_header_that_does_not_arrive_in_time_ends_the_connection(impatient, sent, answer):
    began = time.monotonic()
    with clients(impatient, 1, sent) as (one,):
        found = read_all(one)
    assert found == answer == b"" or (answer and found.startswith(answer))
    assert FAST.header_seconds <= time.monotonic() - began < 8


def test_a_header_that_trickles_is_cut_off_all_the_same(impatient):
    with clients(impatient, 1, b"GET / HTTP/1.1\r\n") as (one,):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for _ in range(90):
                one.sendall(b"X: a\r\n")
                time.sleep(0.1)
        assert time.monotonic() - began < 8, "each byte started the time again"


@pytest.mark.parametrize("more", [b"", b"Content-Length: 100000\r\n"], ids=["idle", "body that nobody reads"])
def test_a_connection_that_stays_idle_is_closed(impatient, more):
    with clients(impatient, 1, head(impatient, more) + b"\r\n") as (one,):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while more and time.monotonic() - began < 8:
                one.sendall(b"a")
                time.sleep(0.1)
        assert more or read_all(one).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - began < 8


def test_a_client_that_reads_nothing_is_cut_off(impatient):
    """Answers pile up until the server can write no more of them."""
    with clients(impatient, 1) as (one,):
        one.settimeout(0.2)
        asked = (head(impatient, path=b"/static/style.css") + b"\r\n") * 200
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                with contextlib.suppress(TimeoutError):
                    one.sendall(asked)
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


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"".join(b"X-%d: a\r\n" % number for number in range(98)), 200),
        (b"".join(b"X-%d: a\r\n" % number for number in range(99)), 431),
        (b"X: " + b"a" * 15_000 + b"\r\n", 200),
        (b"X: " + b"a" * 16_500 + b"\r\n", 431),
        (b"X: " + b"a" * 200_000 + b"\r\n", 431),
    ],
    ids=["100 lines", "101 lines", "15 kB", "16.5 kB", "200 kB"],
)
@pytest.mark.parametrize("pause", [0, 0.05], ids=["at once", "in two parts"])
def test_a_header_has_at_most_16_kilobytes_and_100_lines(served, more, status, pause):
    data = head(served, more) + b"\r\n"
    with clients(served, 1, data[:-4]) as (one,):
        time.sleep(pause)
        with contextlib.suppress(ConnectionError):
            one.sendall(data[-4:])
        one.settimeout(10)
        with contextlib.suppress(ConnectionError):  # the rest of a header that nobody reads resets the connection
            assert one.recv(64).startswith(b"HTTP/1.1 %d " % status)
            return
        assert status == 431


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
