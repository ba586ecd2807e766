"""`maskwright serve` as a process on a free port of this machine: what clients, operators and attackers meet."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from web_client import Client

SOURCES = Path(__file__).resolve().parents[2] / "src"
READY_SECONDS = 90.0  # importing torch takes seconds, on a busy machine many


@dataclass
class ServerProcess(Client):
    """A running server. log: file of its standard error."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def raw(self, data: bytes, timeout: float = 10) -> bytes:
        """Send bytes; returns what comes until the server closes, or `timeout` seconds.

        The sending half ends after the first bytes of the answer, or half a second: earlier, the server would take it
        for a client that left.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            found = b""
            with suppress(OSError):  # closed by the server, or no answer in time
                connection.sendall(data)
                connection.settimeout(0.5)
                with suppress(TimeoutError):
                    found = connection.recv(1 << 16)
                connection.settimeout(timeout)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    found += part
            return found

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for 200 of /ready. Raises RuntimeError with the log if the process ends, or does not become ready."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.is_alive:
                raise RuntimeError(f"the server ended with {self.process.returncode}: {self.text()}")
            with suppress(OSError, HTTPException):
                if self.get("/ready").status == 200:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"the server was not ready after {seconds} s: {self.text()}")

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(
    folder: Path, *options: str | Path, port: int | None = None, launcher: Sequence[str] = (), **environment: str
) -> ServerProcess:
    """Start a server with these options; its log is in `folder`. It may not be ready yet."""
    port = port or free_port()
    command = [*launcher, sys.executable, "-m", "maskwright", "serve", "--port", str(port), *map(str, options)]
    log = folder / f"server-{port}.log"
    variables = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=folder)
    return ServerProcess(process, port, log)


@contextmanager
def running(
    *options: str | Path, port: int | None = None, launcher: Sequence[str] = (), **environment: str
) -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory(prefix="maskwright-serve-") as folder:
        server = start(Path(folder), *options, port=port, launcher=launcher, **environment)
        try:
            server.wait_until_ready()
            yield server
        finally:
            if server.is_alive:
                server.process.kill()
            server.process.wait(30)
