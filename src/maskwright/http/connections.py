"""HTTP/1.1 connections with limits on time, on headers, and on pipelined requests."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import httptools
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..core.errors import RunError
from .guard import with_security_headers

# -- The listening socket of a local server --------------------------------------------------------------------------


LOOPBACK = "127.0.0.1"
BACKLOG = 2048  # connections that wait to be accepted; beyond it a client tries again after a second or more


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Returns a TCP socket that listens on `host`. port: 0 selects any free port.

    Raises RunError if the port cannot be used.
    """
    # With the protocol, or asyncio leaves Nagle's algorithm on and the body of a response waits 40 ms for the client.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise RunError(f"Port {port} cannot be used ({error.strerror}): use another with --port, or 0.") from None
    return found


READ_BYTES = 4096  # parsed at once
GRACE_SECONDS = 0.1  # for the first requests of connections opened in one burst


@dataclass(frozen=True)
class Limits:
    """Resource limits of a server.

    Attributes:
        connections: Maximum number of open connections, and of concurrent requests.
        connections_per_client: The same per client IP address.
        header_bytes: Maximum size of a request header.
        header_lines: Maximum number of header lines.
        header_seconds: Timeout for a complete header, and for the first request of a new connection.
        idle_seconds: Keep-alive timeout between two requests of a connection.
        write_seconds: Timeout for a client that does not read the response.
        retry_seconds: Retry-After value of a 503 response.
    """

    connections: int = 64
    connections_per_client: int = 32
    header_bytes: int = 16 << 10
    header_lines: int = 100
    header_seconds: float = 10.0
    idle_seconds: float = 10.0
    write_seconds: float = 30.0
    retry_seconds: int = 1


def limited_protocol(limits: Limits) -> Any:
    """Returns a protocol factory for uvicorn's `http` setting that enforces `limits`."""
    return partial(LimitedConnection, limits, _Excess())


class _Excess:
    """What the connections of a server share. is_due: whether the excess ones are about to be closed."""

    is_due = False


class LimitedConnection(HttpToolsProtocol):
    """HTTP/1.1 connection that is closed on timeout, or when a newer connection exceeds the limits.

    The parser has no bounds of its own: a header that does not end is counted here.
    """

    def __init__(self, limits: Limits, excess: _Excess, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_message = self._is_in_header = False
        self._header_bytes = 0
        self._num_begun = 0  # messages that began in the current data
        self._unread = b""  # after pipelined requests that wait for their turn
        self._data = b""  # that the parser reads
        self._is_upgrading = self._is_repeating = False
        self._running: Any = None  # the request in progress; `cycle` is the one parsed last
        self.limits = limits
        self.waiting_since = 0.0  # not on the clock of the event loop, which may give a whole burst the same time
        self._excess = excess
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_computing(self) -> bool:
        """Whether a request is in progress and the client reads the response."""
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def connection_made(self, transport: Any) -> None:
        """Starts the timeout of the first request, and closes older connections if there are too many."""
        super().connection_made(transport)
        self.waiting_since = time.monotonic()
        self._close_in(self.limits.header_seconds)
        if not self._excess.is_due and self._is_excess():
            # Delayed: requests of connections opened together with this one have not been read yet.
            self._excess.is_due = True
            self.loop.call_later(GRACE_SECONDS, self._close_excess)

    def data_received(self, data: bytes) -> None:
        """Reads no further while pipelined requests wait: the parser would take any number of them."""
        self._unread += data
        self._read_on()

    def on_response_complete(self) -> None:
        """Waits for the next request, until uvicorn's keep-alive timer; reads on after the last of pipelined ones."""
        self.waiting_since = time.monotonic()
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_in(self.limits.write_seconds)
            self._unread = b""
        elif self.pipeline:
            self.flow.pause_reading()
        else:
            self._read_on()

    def timeout_keep_alive_handler(self) -> None:
        """Closes an idle connection, even one that does not read its last response."""
        super().timeout_keep_alive_handler()
        self._close_in(self.limits.write_seconds)

    def pause_writing(self) -> None:
        """Starts the write timeout when the client stops reading."""
        super().pause_writing()
        self._close_in(self.limits.write_seconds)

    def resume_writing(self) -> None:
        """Stops the write timeout when the client reads again."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers, and ends pipelined requests too: uvicorn ends only the one that was parsed last."""
        for cycle in (self._running, *(one for one, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self._unread = b""
        self._stop_clock()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    # -- private -----------------------------------------------------------------------------------------------------

    def _is_excess(self) -> bool:
        """Whether there are more connections than allowed; counts those of the client only when there are many."""
        limits, count = self.limits, len(self.connections)
        if count <= min(limits.connections, limits.connections_per_client):
            return False
        return len(self._open()) > limits.connections or len(self._open(self.client)) > limits.connections_per_client

    def _open(self, client: tuple[str, int] | None = None) -> list[LimitedConnection]:
        found = [
            one for one in self.connections if isinstance(one, LimitedConnection) and not one.transport.is_closing()
        ]
        return [one for one in found if client is None or (one.client and one.client[0] == client[0])]

    def _close_excess(self) -> None:
        """Closes the longest-idle connections beyond the limits."""
        self._excess.is_due = False
        by_client: dict[str, list[LimitedConnection]] = {}
        for one in self._open():
            by_client.setdefault(one.client[0] if one.client else "", []).append(one)
        for found in by_client.values():
            _close_idle(found, len(found) - self.limits.connections_per_client)
        found = self._open()
        _close_idle(found, len(found) - self.limits.connections)

    def _close_in(self, seconds: float) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(seconds, self._time_out)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        """Closes the connection; a client that sent a partial header gets a 408 response."""
        if self.flow.write_paused or self.transport.is_closing():
            self.transport.abort()
        elif self._is_in_header and (self.cycle is None or self.cycle.response_complete):
            self._write_and_close(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self._close()

    def _write_and_close(self, status: HTTPStatus) -> None:
        """Writes a response outside of uvicorn's request cycle: there is no complete request."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self._close()  # the client would read a second response as part of the first
            return
        body = f"{status.phrase}.".encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self._close()

    def _close(self) -> None:
        """Closes the connection once everything is written, and in any case after a time."""
        self.transport.close()
        self._close_in(self.limits.write_seconds)

    # -- the parser

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _read_on(self) -> None:
        while self._unread and not self.pipeline and not self.transport.is_closing():
            data, self._unread = self._unread[:READ_BYTES], self._unread[READ_BYTES:]
            self._read(data)
        if self._unread:
            self.flow.pause_reading()

    def _read(self, data: bytes) -> None:
        """Parses data. Rejects a header that is too large before it ends (431)."""
        was_between, self._num_begun, self._data = not self._is_in_message, 0, data
        if not self.is_computing and self._deadline is None:
            self._close_in(self.limits.header_seconds)
        super().data_received(data)
        if self.is_computing:
            self._stop_clock()
        self._data = b""
        if not self._is_in_header:
            return
        # Of data with the end of another message only a part belongs to this header.
        if self._num_begun == 0 or (self._num_begun == 1 and was_between):
            self._header_bytes += len(data)
        if self._header_bytes > self.limits.header_bytes:
            self._write_and_close(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        if self._is_repeating:
            return
        self._is_in_message = self._is_in_header = True
        self._header_bytes = 0
        self._num_begun += 1
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_repeating:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignores trailers: they would be added to the header of a request that is already checked."""
        if self._is_in_header:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stops to count: `RequestLimits` checks the complete header."""
        if self._is_repeating:
            return
        self._is_in_header = False
        self._is_upgrading = self.parser.should_upgrade()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expects the next message, unless the parser only takes the body for another protocol."""
        if not self._is_upgrading:
            self._is_in_message = False
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Reads on in HTTP/1.1 where the parser stopped: clients offer HTTP/2 with requests that have a body.

        uvicorn calls this in the handler of the parser's exception, which has the place.
        """
        error = sys.exc_info()[1]
        if not isinstance(error, httptools.HttpParserUpgrade):
            return
        rest = self._data[error.args[0] :]
        self._is_upgrading = False
        framing = [one for one in self.headers if one[0] in (b"content-length", b"transfer-encoding")]
        self.parser = httptools.HttpRequestParser(self)
        self._is_repeating = True
        try:  # the part of the header with the length of the body
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in framing)
            self.parser.feed_data(b"POST / HTTP/1.1\r\n" + lines + b"\r\n")
        finally:
            self._is_repeating = False
        if rest:
            self._data = rest
            super().data_received(rest)

    def send_400_response(self, msg: str) -> None:
        self._is_in_header = False
        self._write_and_close(HTTPStatus.BAD_REQUEST)


def _close_idle(connections: list[LimitedConnection], count: int) -> None:
    """Closes `count` of the connections, the longest-idle first; those in progress stay."""
    if count <= 0:
        return
    waiting = sorted((one for one in connections if not one.is_computing), key=lambda one: one.waiting_since)
    for one in waiting[:count]:
        one.transport.abort() if one.flow.write_paused else one.transport.close()


# -- Resource limits per client, so that no client can block another -------------------------------------------------
#
# Three limits apply: the time to send a request header or to stay idle, the connections per client, and the connections
# in total. A new connection beyond a limit closes the one that has been idle longest, so idle connections never block
# others. Requests in progress are never closed; further requests beyond the limit get 503 with Retry-After.


class RequestLimits:
    """ASGI middleware that rejects requests with an oversized header (431) or beyond the concurrency limit (503).

    on_reject: Called with the status of each rejection.
    """

    def __init__(self, app: ASGIApp, limits: Limits, on_reject: Callable[[int], None] = lambda status: None) -> None:
        self.app, self.limits, self.on_reject = app, limits, on_reject
        self.active: Counter[str] = Counter()  # requests in progress by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = scope["client"][0] if scope.get("client") else ""
        rejection = self._reject(scope, client)
        if rejection is not None:
            self.on_reject(rejection.status_code)
            await rejection(scope, receive, with_security_headers(send))
            return
        self.active[client] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.active[client] -= 1
            if not self.active[client]:
                del self.active[client]

    def _reject(self, scope: Scope, client: str) -> PlainTextResponse | None:
        limits, headers = self.limits, scope["headers"]
        size = len(scope["raw_path"]) + len(scope["query_string"])
        for name, value in headers:
            size += len(name) + len(value)
        if size > limits.header_bytes or len(headers) > limits.header_lines:
            return PlainTextResponse(
                f"The request header is too large: send at most {limits.header_bytes:,} bytes in "
                f"{limits.header_lines} lines.",
                431,
                {"connection": "close"},
            )
        if self.active[client] >= limits.connections_per_client or self.active.total() >= limits.connections:
            return PlainTextResponse(
                "The server is busy: send the request again later.",
                503,
                {"retry-after": str(limits.retry_seconds), "connection": "close"},
            )
        return None


def uvicorn_config(
    app: ASGIApp, limits: Limits, on_reject: Callable[[int], None] = lambda status: None, **options: Any
) -> uvicorn.Config:
    """Returns the configuration of a server with these limits: no access log, no WebSockets.

    on_reject: of RequestLimits; options: further ones of `uvicorn.Config`.
    """
    return uvicorn.Config(
        RequestLimits(app, limits, on_reject),
        http=limited_protocol(limits),
        loop="asyncio",  # uvloop accepts one connection in each of its rounds: under load, others wait for seconds
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # a float too
        **options,
    )
