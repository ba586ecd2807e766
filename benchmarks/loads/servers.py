"""The servers that are compared: ours, infinity-emb, and FastAPI around sentence-transformers, each in its own process.

Each serves one sentence encoder from a folder, and answers POST {"input": [texts]} on its `route`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src"
START_SECONDS = 180.0


@dataclass(frozen=True)
class Server:
    """A program that can be measured. command: of a model folder and a port; health: 200 when it is ready."""

    name: str
    route: str
    health: str
    command: tuple[str, ...]

    def words(self, folder: Path, port: int) -> list[str]:
        """The command line."""
        return [word.format(folder=folder, port=port) for word in self.command]


@dataclass
class Running:
    """A ready server. ready_seconds: from its start to the first 200."""

    server: Server
    port: int
    process: subprocess.Popen[bytes]
    ready_seconds: float

    def resident_bytes(self) -> int:
        """Resident memory of the process and its children."""
        own = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in [own, *own.children(recursive=True)])

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None


def ours(precision: str) -> Server:
    """`maskwright serve`."""
    command = [sys.executable, "-m", "maskwright", "serve", "--model", "minilm={folder}", "--port", "{port}"]
    command += ["--precision", precision, "--no-access-log"]
    return Server(f"maskwright {precision}", "/v1/embeddings", "/ready", tuple(command))


def infinity(python: str) -> Server:
    """infinity-emb in the environment of `python`."""
    command = [str(Path(python).parent / "infinity_emb"), "v2", "--model-id", "{folder}", "--port", "{port}"]
    command += ["--served-model-name", "minilm", "--engine", "torch", "--device", "cpu", "--dtype", "float32"]
    command += ["--host", "127.0.0.1", "--url-prefix", "/v1", "--log-level", "error"]
    return Server("infinity-emb", "/v1/embeddings", "/health", tuple(command))


def plain(python: str) -> Server:
    """FastAPI and sentence-transformers in the environment of `python`."""
    command = (python, str(HERE / "plain_server.py"), "{folder}", "{port}")
    return Server("FastAPI + sentence-transformers", "/v1/embeddings", "/health", command)


@contextmanager
def running(server: Server, folder: Path, port: int) -> Iterator[Running]:
    """Start a server, wait until it is ready, end it. Raises RuntimeError with its output if it does not start."""
    variables = {**os.environ, "PYTHONPATH": str(SOURCES) if server.name.startswith("maskwright") else ""}
    variables |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "INFINITY_ANONYMOUS_USAGE_STATS": "0",
    }
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(server.words(folder, port), stdout=output, stderr=subprocess.STDOUT, env=variables)
        try:
            while not is_ready(port, server.health):
                if process.poll() is not None or time.perf_counter() - began > START_SECONDS:
                    output.seek(0)
                    raise RuntimeError(f"{server.name} did not start: {output.read()[-3000:].decode(errors='replace')}")
                time.sleep(0.02)
            yield Running(server, port, process, time.perf_counter() - began)
        finally:
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def is_ready(port: int, path: str) -> bool:
    """Whether a server answers 200."""
    with suppress(OSError, HTTPException):
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False
