"""Resource limits per client, so that no client can block another.

Three limits apply: the time to send a request header or to stay idle, the connections per client, and the connections
in total. A new connection beyond a limit closes the one that has been idle longest, so idle connections never block
others. Requests in progress are never closed; further requests beyond the limit get 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import with_security_headers

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


class RequestLimits:
    """ASGI middleware that rejects requests with an oversized header (431) or beyond the concurrency limit (503)."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.active: Counter[str] = Counter()  # requests in progress by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = scope["client"][0] if scope.get("client") else ""
        rejection = self._reject(scope, client)
        if rejection is not None:
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
        size = (
            len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in headers)
        )
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


def limited_protocol(limits: Limits) -> Any:
    """Returns a protocol factory for uvicorn's `http` setting that enforces `limits`."""
    return partial(LimitedProtocol, limits)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 connection that is closed on timeout, or when a newer connection exceeds the limits."""

    def __init__(self, limits: Limits, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits
        self.waiting_since = 0.0  # on the clock of the event loop
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_computing(self) -> bool:
        """Whether a request is in progress and the client reads the response."""
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Starts the timeout of the first request, and closes older connections if there are too many."""
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._close_in(self.limits.header_seconds)
        if (
            len(self._open()) > self.limits.connections
            or len(self._open(self.client)) > self.limits.connections_per_client
        ):
            # Delayed: requests of connections opened together with this one have not been read yet.
            self.loop.call_later(GRACE_SECONDS, self._close_excess)

    def data_received(self, data: bytes) -> None:
        """Starts the header timeout with the first byte and stops it with the last."""
        if not self.is_computing and self._deadline is None:
            self._close_in(self.limits.header_seconds)
        super().data_received(data)
        if self.is_computing:
            self._stop_clock()

    def on_response_complete(self) -> None:
        """Waits for the next request: uvicorn's keep-alive timer closes an idle connection."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Starts the write timeout when the client stops reading."""
        super().pause_writing()
        self._close_in(self.limits.write_seconds)

    def resume_writing(self) -> None:
        """Stops the write timeout when the client reads again."""
        super().resume_writing()
        self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        self._stop_clock()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """Rejects an invalid request (400) or an oversized header (431), by the status of h11's error."""
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        self._write_and_close(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if status == 431 else HTTPStatus.BAD_REQUEST)

    def _open(self, client: tuple[str, int] | None = None) -> list[LimitedProtocol]:
        """Returns the open connections of one client or of all."""
        found = [one for one in self.connections if isinstance(one, LimitedProtocol) and not one.transport.is_closing()]
        return [one for one in found if client is None or (one.client and one.client[0] == client[0])]

    def _close_excess(self) -> None:
        """Closes the longest-idle connections beyond the limits."""
        for client, most in ((self.client, self.limits.connections_per_client), (None, self.limits.connections)):
            found = self._open(client)
            waiting = sorted((one for one in found if not one.is_computing), key=lambda one: one.waiting_since)
            for one in waiting[: max(0, len(found) - most)]:
                one.transport.abort() if one.flow.write_paused else one.transport.close()

    def _close_in(self, seconds: float) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(seconds, self._time_out)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        """Closes the connection; a client that sent a partial header gets a 408 response."""
        if self.flow.write_paused:
            self.transport.abort()
        elif self.conn.trailing_data[0] and (self.cycle is None or self.cycle.response_complete):
            self._write_and_close(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _write_and_close(self, status: HTTPStatus) -> None:
        """Writes a response outside of h11's state machine, which has no complete request."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # the client would read a second response as part of the first
            return
        body = f"{status.phrase}.".encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()


def uvicorn_config(app: ASGIApp, limits: Limits, **options: Any) -> uvicorn.Config:
    """Returns the configuration of a server with these limits: no access log, no WebSockets.

    options: further ones of `uvicorn.Config`.
    """
    return uvicorn.Config(
        RequestLimits(app, limits),
        http=limited_protocol(limits),
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # a float too
        **options,
    )
