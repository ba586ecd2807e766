"""A load generator: many connections of one asyncio process to a server of this machine, for a bounded time.

    closed_loop    each of N clients sends its next request when the last one is answered: measures capacity
    open_loop      requests arrive at random moments at a given rate, answered or not: measures what users wait

A time runs from the moment when a request was due, so a server that stalls cannot hide it: the requests that it kept
from being sent count too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Response:
    """One response. seconds: since the request was due."""

    kind: str
    status: int
    seconds: float
    retry_after: str = ""


@dataclass(frozen=True)
class Load:
    """All outcomes. seconds: from the first request to the last response."""

    outcomes: list[Response]
    seconds: float


def post(path: str, value: Any, kind: str = "", **headers: str) -> Request:
    """A POST request of JSON, for a connection that stays open."""
    body = json.dumps(value).encode()
    lines = {"Host": HOST, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {one}\r\n" for name, one in lines.items())
    return Request(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body, kind)


class Connection:
    """One connection; reconnects when the server has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read its response."""
        is_reused = self._streams is not None
        try:
            return await self._ask(request)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            if not is_reused:
                raise
            return await self._ask(request)  # the server had closed an idle connection

    async def _ask(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self.port)
        reader, writer = self._streams
        writer.write(request.data)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): one.strip() for name, _, one in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(head[0].split()[1]), headers, body

    def close(self) -> None:
        """Close it; the next request opens another."""
        if self._streams is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._streams[1].close()
            self._streams = None


async def timed(connection: Connection, request: Request, due: float) -> Response:
    """Send a request; an error of the connection is an outcome too."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            status, headers, _ = await connection.ask(request)
    except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
        connection.close()
        return Response(request.kind, FAILED, time.perf_counter() - due)
    return Response(request.kind, status, time.perf_counter() - due, headers.get("retry-after", ""))


def closed_loop(port: int, requests: Iterator[Request], clients: int, seconds: float) -> Load:
    """`clients` clients for `seconds`, and until their last requests are answered."""

    async def client(outcomes: list[Response], end: float) -> None:
        connection = Connection(port)
        while (now := time.perf_counter()) < end:
            outcomes.append(await timed(connection, next(requests), now))
        connection.close()

    async def run() -> Load:
        outcomes: list[Response] = []
        began = time.perf_counter()
        await asyncio.gather(*(client(outcomes, began + seconds) for _ in range(clients)))
        return Load(outcomes, time.perf_counter() - began)

    return asyncio.run(run())


def open_loop(port: int, requests: Iterator[Request], rate: float, seconds: float, seed: int = 0) -> Load:
    """Requests at `rate` per second (a Poisson process) for `seconds`, and until the last is answered."""

    async def run() -> Load:
        rng, outcomes = random.Random(seed), []
        idle: list[Connection] = []
        tasks: set[asyncio.Task[None]] = set()

        async def send(request: Request, due: float) -> None:
            connection = idle.pop() if idle else Connection(port)
            outcomes.append(await timed(connection, request, due))
            idle.append(connection)

        began = time.perf_counter()
        due = began
        while (due := due + rng.expovariate(rate)) < began + seconds:
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            elif len(tasks) % 20 == 0:
                await asyncio.sleep(0)
            request = next(requests)
            if len(tasks) >= MAX_OPEN:
                outcomes.append(Response(request.kind, UNSENT, 0))
                await asyncio.sleep(0)
                continue
            task = asyncio.create_task(send(request, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        for connection in idle:
            connection.close()
        return Load(outcomes, time.perf_counter() - began)

    return asyncio.run(run())


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
        "rejected_p99_ms": percentile([one.seconds for one in rejected], 99),
        "rejected_without_retry_after": sum(not one.retry_after for one in rejected),
        "failed": sum(one.status == FAILED for one in chosen),
        "unsent": sum(one.status == UNSENT for one in chosen),
        "other": sum(one.status not in (200, 429, 503, FAILED, UNSENT) for one in chosen),
    }


def percentile(seconds: list[float], share: float) -> float | None:
    """A percentile in milliseconds; None without values."""
    return round(float(np.percentile(seconds, share)) * 1e3, 3) if seconds else None
