"""Bad input by name: each is answered with its status and a sentence, and harms nobody else."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from serve.fuzzing import GOOD, request, statuses
from serve.server_process import running
from serve.small_models import write_models

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A model of each kind."""
    with running(*write_models(tmp_path_factory.mktemp("models")), "--precision", "fp32") as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(server):
    """After each test, the server answers."""
    yield
    assert server.is_alive, server.text()
    assert server.post("/embed", GOOD).status == 200


def sentence(answer) -> str:
    """The error of either dialect."""
    error = answer.json()["error"]
    return error["message"] if isinstance(error, dict) else error


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"inputs": "\\ud800"}', (400, 422)),
        (b'{"inputs": ["a", "\\udfff b"]}', (400, 422)),
        (b"[" * 100_000, (400,)),
        (b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", (400, 422)),
        (b'{"a":' * 50_000, (400, 422)),
        (b'{"inputs": NaN}', (400, 422)),
        (b'{"inputs": "a", "normalize": Infinity}', (400, 422)),
        (b"\xff\xfe", (400,)),
        (b'{"inputs": "\xff"}', (400,)),
        (b"", (400,)),
        (b"null", (400, 422)),
        (b'{"inputs": []}', (400,)),
        (b'{"inputs": [[]]}', (400, 422)),
        (b'{"inputs": {}}', (422,)),
        (b'{"inputs": 1}', (422,)),
        (b'{"inputs": "a", "truncate": "yes"}', (422,)),
        (b'{"inputs": "a", "dimensions": -1}', (422,)),
        (b'{"inputs": "a", "dimensions": 1e30}', (422,)),
        (b'{"inputs": ' + json.dumps(["a"] * 10_000).encode() + b"}", (413,)),
        (b'{"inputs": "' + b"a" * 2_100_000 + b'"}', (413,)),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else None,
)
@pytest.mark.parametrize("route", ["/embed", "/v1/embeddings", "/models/vectors"])
def test_bodies(server, route, body, status):
    if route == "/v1/embeddings":
        body = body.replace(b'"inputs"', b'"input"', 1)
    answer = server.post(route, body)
    in_v1 = {400 if one == 422 else one for one in status}
    assert answer.status in (in_v1 if route.startswith("/v1") else status), answer.body[:300]
    assert sentence(answer)
    assert "\\ud" not in answer.body.decode()


def test_a_body_of_fifty_megabytes_is_cut_off(server):
    began, sent = time.monotonic(), 0
    head = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    part = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
        one.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while sent < 50_000_000:
                one.sendall(part)
                sent += 65536
        with contextlib.suppress(OSError):
            found = one.recv(65536)
    assert time.monotonic() - began < 20
    assert sent < 50_000_000 or statuses(found) == [413]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/embed", {"Content-Type": "text/plain"}, 415),
        ("POST", "/embed", {"Content-Type": "application/xml"}, 415),
        ("GET", "/embed", {}, 405),
        ("DELETE", "/v1/models", {}, 405),
        ("POST", "/absent", {"Content-Type": "application/json"}, 404),
        ("POST", "/models/absent/embed", {"Content-Type": "application/json"}, 404),
        ("POST", "/models/..%2f..%2fetc/embed", {"Content-Type": "application/json"}, 404),
        ("GET", "/v1/models/absent", {}, 404),
        ("POST", "/embed", {"Content-Type": "application/json", "Host": "attacker.example"}, 421),
        ("POST", "/embed", {"Content-Type": "application/json", "Origin": "https://attacker.example"}, 403),
        ("POST", "/embed", {"Content-Type": "application/json", "Origin": "null"}, 403),
    ],
)
def test_addresses_methods_types_and_origins(server, method, path, headers, status):
    answer = server.request(method, path, b'{"inputs": "a"}' if method == "POST" else None, headers)
    assert answer.status == status, answer.body[:300]


@pytest.mark.parametrize(
    ("name", "route", "body"),
    [
        ("vectors", "/fill-mask", {"inputs": "a [MASK]"}),
        ("vectors", "/predict", {"inputs": "a"}),
        ("topics", "/tag", {"inputs": "a"}),
        ("writer", "/answer", {"inputs": {"question": "a", "context": "b"}}),
        ("reader", "/translate", {"inputs": "a"}),
        ("names", "/generate", {"inputs": "a"}),
    ],
)
def test_a_model_without_the_head_says_what_it_is(server, name, route, body):
    answer = server.post(f"/models/{name}{route}", body)
    assert answer.status == 424, answer.body
    assert name in sentence(answer)


def test_an_unknown_model_is_named_with_those_that_exist(server):
    answer = server.post("/v1/embeddings", {"input": "a", "model": "absent"})
    assert answer.status == 404 and "absent" in sentence(answer) and "vectors" in sentence(answer)


@pytest.mark.parametrize(
    "more",
    [
        b"".join(b"X-%d: a\r\n" % number for number in range(110)),
        b"X: " + b"a" * 17_000 + b"\r\n",
        b"X: " + b"a" * 1_000_000 + b"\r\n",
    ],
    ids=["110 lines", "17 kB", "1 MB"],
)
def test_header_floods_are_rejected(server, more):
    found = statuses(server.raw(request("/embed", b'{"inputs": "a"}', more)))
    assert found in ([431], []), found


def test_endless_headers_are_cut_off(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
        one.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 5_000_000:
                one.sendall(b"X-A: " + b"a" * 995 + b"\r\n")
                sent += 1002
    assert sent < 5_000_000


def test_a_client_that_leaves_is_counted_and_not_computed(server):
    before = server.metric("maskwright_abandoned_total")
    long = json.dumps({"inputs": ["the cat sat on the mat . " * 10] * 200}).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.sendall(request("/embed", long))
            time.sleep(0.005)
    deadline = time.monotonic() + 30
    while server.metric("maskwright_queued_requests") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert server.metric("maskwright_queued_requests") == 0
    assert server.metric("maskwright_abandoned_total") > before
