"""Signals to a real process: stops that lose no admitted request, kill -9 and a new start, keys that change, TLS.

MASKWRIGHT_STOPS is the number of stops under load (default 5), MASKWRIGHT_MEMORY_REQUESTS the number of requests
over which memory must stay flat (default 1,000).
"""

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPSConnection

import pytest

from serve.fuzzing import GOOD, request
from serve.server_process import ServerProcess, free_port, running, start
from serve.small_models import write_models
from web_client import read_all, run_async, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="signals of Unix")]
STOPS = int(os.environ.get("MASKWRIGHT_STOPS", "5"))
MEMORY_REQUESTS = int(os.environ.get("MASKWRIGHT_MEMORY_REQUESTS", "1000"))
CLIENTS, GRACE = 16, 10.0
LARGE = ("--max-queue-seconds", "600", "--max-texts", "20000")  # for a request that takes seconds
TEXTS = [f"the cat sat on the mat and {number} dogs chase cats in the garden" for number in range(30)]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return [*write_models(tmp_path_factory.mktemp("models"), "vectors"), "--precision", "fp32", "--grace", str(GRACE)]


async def ask(port: int, data: bytes, found: Counter[str], end: asyncio.Event) -> None:
    while not end.is_set():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            found["refused"] += 1
            await asyncio.sleep(0.01)
            continue
        begun = b""
        try:
            while not end.is_set():
                begun = b""
                writer.write(data)
                begun = await reader.readuntil(b"\r\n\r\n")
                lines = begun.decode("latin-1").lower().split("\r\n")
                length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length"))
                body = await reader.readexactly(length)
                status = lines[0].split()[1]
                assert json.loads(body), "the whole body"
                found[status] += 1
                if "connection: close" in lines:
                    break
        except (OSError, asyncio.IncompleteReadError) as error:
            partial = getattr(error, "partial", b"")
            found["cut" if begun or partial else "closed"] += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def stop_under_load(server: ServerProcess) -> tuple[Counter[str], int, float]:
    """Load from many connections, then SIGTERM. Returns what the clients saw, the exit code and the seconds to it."""
    found: Counter[str] = Counter()
    end = asyncio.Event()
    data = request("/embed", json.dumps({"inputs": TEXTS}).encode()).replace(b"Connection: close\r\n", b"")
    clients = [asyncio.create_task(ask(server.port, data, found, end)) for _ in range(CLIENTS)]
    await asyncio.sleep(0.7)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(server.process.wait, 60)
    seconds = time.monotonic() - began
    end.set()
    await asyncio.gather(*clients)
    return found, code, seconds


def logged(server: ServerProcess) -> Counter[int]:
    lines = [json.loads(line) for line in server.text().splitlines() if line.startswith("{")]
    return Counter(line["status"] for line in lines if line["route"] == "/embed")


@pytest.mark.parametrize("number", range(STOPS))
def test_a_stop_under_load_loses_no_admitted_request(options, number):
    """Each 200 in the log reached its client whole; after the signal there are 503, and then nothing."""
    with running(*options) as server:
        found, code, seconds = run_async(stop_under_load(server))
        log = logged(server)
    assert code == 0 and seconds < GRACE + 5
    assert found["200"] == log[200] > 0 and found["cut"] == 0, (found, log)
    assert set(log) <= {200, 429, 503}, log


@contextlib.contextmanager
def working(server: ServerProcess) -> Iterator[list[socket.socket]]:
    """Connections whose requests keep this server computing for about three seconds, on any machine."""
    large = {"inputs": TEXTS * 200}
    began = time.monotonic()
    server.post("/embed", large)
    count = math.ceil(3 / (time.monotonic() - began))
    with ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        found = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(count)]
        for one in found:
            one.sendall(request("/embed", json.dumps(large).encode()))
        time.sleep(0.3)
        yield found


def test_readiness_ends_before_the_work_and_new_work_is_refused(options):
    with running(*options, *LARGE) as server, working(server) as busy:
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        statuses = {server.get("/ready").status, server.post("/embed", GOOD).status}
        found = [read_all(one) for one in busy]
        assert found[0].startswith(b"HTTP/1.1 200 ") and found[0].endswith((b"]]", b"0\r\n\r\n"))
        assert all(one.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 ")) for one in found)  # admitted in time or not
        assert statuses == {503} and server.process.wait(30) == 0


def test_a_second_signal_ends_it_at_once(options):
    """The first waits for a request that takes long."""
    with running(*options, *LARGE) as server, working(server):
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.is_alive
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(GRACE / 2) == 130


def test_kill_and_start_again_on_the_same_port(options):
    port = free_port()
    expected = None
    for _ in range(2):
        with running(*options, port=port) as server:
            found = server.post("/embed", GOOD)
            assert found.status == 200 and expected in (None, found.json())
            expected = found.json()
            opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
            for one in opened:
                one.sendall(request("/embed", json.dumps({"inputs": TEXTS}).encode()))
            server.process.kill()
            server.process.wait(10)
            for one in opened:
                one.close()


def test_a_unix_socket_is_private_and_outlives_a_kill(options, tmp_path):
    path = tmp_path / "s"
    for number in range(2):
        server = start(tmp_path, *options, "--uds", path)
        try:
            connection = HTTPConnection("localhost", timeout=10)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    connection.sock.connect(str(path))
                    connection.request("GET", "/ready")
                    if connection.getresponse().read() and connection.sock is not None:
                        break
                except OSError:
                    time.sleep(0.05)
                connection.close()
            assert path.stat().st_mode & 0o777 == 0o600
            if number == 0:
                server.process.kill()
                server.process.wait(10)
                assert path.exists()
            else:
                assert server.stop() == 0 and not path.exists()
        finally:
            server.process.kill()


def test_hangup_reads_the_keys_again(options, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one:first-secret\n", encoding="utf-8")
    with running(*options, "--api-key-file", keys) as server:

        def status(key: str) -> int:
            return server.post("/embed", GOOD, Authorization=f"Bearer {key}").status

        assert status("first-secret") == 200 and status("second-secret") == 401
        keys.write_text("one:first-secret\ntwo:second-secret\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: status("second-secret") == 200)
        assert status("second-secret") == status("first-secret") == 200
        keys.write_text("no key here\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "stay as they were" in server.text())
        assert status("first-secret") == 200
        text = server.text()
    assert "secret" not in text and "no key here" not in text


def test_https(options, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    server = start(tmp_path, *options, "--tls-cert", cert, "--tls-key", key)
    try:
        context = ssl.create_default_context(cafile=str(cert))
        deadline, status = time.monotonic() + 60, 0
        while status != 200 and time.monotonic() < deadline:
            assert server.is_alive, server.text()
            connection = HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
            with contextlib.suppress(OSError):
                connection.request("GET", "/ready")
                status = connection.getresponse().status
            connection.close()
            time.sleep(0.02)
        connection = HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
        connection.request("POST", "/embed", json.dumps(GOOD), {"Content-Type": "application/json"})
        assert len(json.loads(connection.getresponse().read())) == 2
        connection.close()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
            plain.sendall(request("/embed", json.dumps(GOOD).encode()))
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")
        assert "https://127.0.0.1" in server.text() and server.stop() == 0
    finally:
        server.process.kill()


def test_memory_stays_flat(options):
    """Resident memory over many requests of mixed lengths, after as many to warm up as make a tenth."""
    psutil = pytest.importorskip("psutil", reason="the test extra installs psutil")
    with running(*options, "--no-access-log") as server:
        process = psutil.Process(server.process.pid)
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)

        def send(count: int) -> None:
            for number in range(count):
                inputs = TEXTS[: 1 + number % 20] if number % 3 else [" ".join(TEXTS[: 1 + number % 7])]
                body = json.dumps({"inputs": inputs})
                connection.request("POST", "/embed", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
                assert response.status == 200

        send(MEMORY_REQUESTS // 10)
        before = process.memory_info().rss
        send(MEMORY_REQUESTS)
        grown = process.memory_info().rss - before
    assert grown < 20 * 2**20, f"{grown / 2**20:.1f} MiB"
