"""A load generator: many connections of one asyncio process to a server of this machine, for a bounded time.

    closed_loop    each of N clients sends its next request when the last one is answered: measures capacity
    open_loop      requests arrive at random moments at a given rate, answered or not: measures what users wait

A time runs from the moment when a request was due, so a server that stalls cannot hide it: the requests that it kept
from being sent count too. `late` is how late the generator itself was: what it adds to the times of the server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HOST = "127.0.0.1"
FAILED, UNSENT = 0, -1  # "statuses" of a connection that failed, and of a request beyond MAX_OPEN
MAX_OPEN = 2000  # open requests of an open loop
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Request:
    """The bytes of a request, and what the report calls it."""

    data: bytes
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """One response. seconds: since the request was due."""

    kind: str
    status: int
    seconds: float
    has_retry_after: bool = False


@dataclass
class Load:
    """All outcomes. seconds: from the first request to the last response; late: of each request that was sent."""

    outcomes: list[Response] = field(default_factory=list)
    seconds: float = 0.0
    late: list[float] = field(default_factory=list)


def post(path: str, value: Any, kind: str = "", **headers: str) -> Request:
    """A POST request of JSON, for a connection that stays open."""
    body = json.dumps(value).encode()
    lines = {"Host": HOST, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {one}\r\n" for name, one in lines.items())
    return Request(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body, kind)


class Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.transport: asyncio.Transport | None = None
        self.request: Request | None = None  # sent and not answered
        self.due = 0.0
        self.is_reused = False
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        """Open."""
        self.transport = transport

    def send(self, request: Request, due: float) -> None:
        """Send a request."""
        assert self.transport is not None
        self.request, self.due, self._data = request, due, b""
        self.run.load.late.append(time.perf_counter() - due)
        self.transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        """Read a response with a Content-Length."""
        self._data = self._data + data if self._data else data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or self.request is None:
            return
        head = self._data[:end].lower()
        place = head.find(b"\r\ncontent-length:")
        length = int(head[place + 17 :].split(b"\r", 1)[0]) if place >= 0 else 0
        if len(self._data) < end + 4 + length:
            return
        request, self.request = self.request, None
        seconds = time.perf_counter() - self.due
        outcome = Response(request.kind, int(head[9:12]), seconds, b"\r\nretry-after:" in head)
        self.is_reused = True
        if b"\r\nconnection: close" in head and self.transport is not None:
            self.transport.close()
            self.run.answered(outcome, None)
        else:
            self.run.answered(outcome, self)

    def connection_lost(self, error: Exception | None) -> None:
        """An idle connection may end; the end of another fails its request, or repeats it if nothing came of it."""
        request, self.request, self.transport = self.request, None, None
        if request is None:
            self.run.idle_lost(self)
        elif self.is_reused and not self._data:  # the server had closed an idle connection
            self.run.connect(request, self.due)
        else:
            self.run.answered(Response(request.kind, FAILED, time.perf_counter() - self.due), None)


class Run:
    """The connections of one load. on_answer: called with the connection after each response, None if it is gone."""

    def __init__(self, port: int, on_answer: Callable[[Connection | None], None] | None = None) -> None:
        self.port, self.on_answer = port, on_answer
        self.load = Load()
        self.idle: list[Connection] = []
        self.num_open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._all: set[Connection] = set()

    def send(self, request: Request, due: float) -> None:
        """Send a request on an idle connection, or a new one."""
        self.num_open += 1
        if self.idle:
            self.idle.pop().send(request, due)
        else:
            self.connect(request, due)

    def connect(self, request: Request, due: float) -> None:
        """Send a request that counts as open already on a new connection."""
        task = asyncio.ensure_future(self._connect(request, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, request: Request, due: float) -> None:
        try:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(lambda: Connection(self), HOST, self.port)
        except OSError:
            self.answered(Response(request.kind, FAILED, time.perf_counter() - due), None)
            return
        self._all.add(connection)
        if connection.transport is not None and not connection.transport.is_closing():
            connection.send(request, due)
        else:
            self.answered(Response(request.kind, FAILED, time.perf_counter() - due), None)

    def answered(self, outcome: Response, connection: Connection | None) -> None:
        """Note an outcome; the connection is idle."""
        self.num_open -= 1
        self.load.outcomes.append(outcome)
        if self.on_answer is not None:
            self.on_answer(connection)
        elif connection is not None:
            self.idle.append(connection)

    def idle_lost(self, connection: Connection) -> None:
        """Forget a connection that the server has closed."""
        self._all.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)

    async def finish(self, began: float) -> Load:
        """Wait for the last responses, and close everything."""
        end = time.perf_counter() + PATIENCE_SECONDS
        while self.num_open and time.perf_counter() < end:
            await asyncio.sleep(0.005)
        self.load.seconds = time.perf_counter() - began
        self.load.outcomes += [Response("", FAILED, PATIENCE_SECONDS)] * self.num_open
        self.on_answer = lambda connection: None
        for connection in self._all:
            if connection.transport is not None:
                connection.transport.abort()
        return self.load


def closed_loop(port: int, requests: Iterator[Request], clients: int, seconds: float) -> Load:
    """`clients` clients for `seconds`, and until their last requests are answered."""

    async def run() -> Load:
        began = time.perf_counter()

        def send_next(connection: Connection | None) -> None:
            now = time.perf_counter()
            if now >= began + seconds:
                return
            found.num_open += 1
            if connection is None:
                found.connect(next(requests), now)
            else:
                connection.send(next(requests), now)

        found = Run(port, send_next)
        for _ in range(clients):
            send_next(None)
        while time.perf_counter() < began + seconds:
            await asyncio.sleep(0.05)
        return await found.finish(began)

    return in_loop(run)


def open_loop(port: int, requests: Iterator[Request], rate: float, seconds: float, seed: int = 0) -> Load:
    """Requests at `rate` per second (a Poisson process) for `seconds`, and until the last is answered."""

    async def run() -> Load:
        rng, found = random.Random(seed), Run(port)
        began = time.perf_counter()
        due = began
        while (due := due + rng.expovariate(rate)) < began + seconds:
            while (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            request = next(requests)
            if found.num_open >= MAX_OPEN:
                found.load.outcomes.append(Response(request.kind, UNSENT, 0))
            else:
                found.send(request, due)
            if len(found.load.late) % 8 == 0:
                await asyncio.sleep(0)  # responses are read although the generator is behind
        return await found.finish(began)

    return in_loop(run)


def in_loop(run: Callable[[], Any]) -> Load:
    """Run a load in uvloop where it is installed, without pauses of the garbage collector."""
    try:
        from uvloop import new_event_loop as factory
    except ImportError:
        factory = None
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            found: Load = runner.run(run())
    finally:
        gc.enable()
    return found


def summary(load: Load, kind: str | None = None) -> dict[str, Any]:
    """Figures of a load: requests, those answered with 200 per second, their percentiles in ms, the others."""
    chosen = [one for one in load.outcomes if kind is None or one.kind == kind]
    good = [one.seconds for one in chosen if one.status == 200]
    rejected = [one for one in chosen if one.status in (429, 503)]
    return {
        "requests": len(chosen),
        "answered": len(good),
        "answered_per_second": len(good) / load.seconds,
        **{f"p{share}_ms": percentile(good, share) for share in (50, 99)},
        "rejected": len(rejected),
        **{f"rejected_p{share}_ms": percentile([one.seconds for one in rejected], share) for share in (50, 99)},
        "rejected_without_retry_after": sum(not one.has_retry_after for one in rejected),
        "failed": sum(one.status == FAILED for one in chosen),
        "unsent": sum(one.status == UNSENT for one in chosen),
        "other": sum(one.status not in (200, 429, 503, FAILED, UNSENT) for one in chosen),
        "late_p99_ms": percentile(load.late, 99),
    }


def percentile(seconds: list[float], share: float) -> float | None:
    """A percentile in milliseconds; None without values."""
    return round(float(np.percentile(seconds, share)) * 1e3, 3) if seconds else None
