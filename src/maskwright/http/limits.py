"""Resource limits per client, so that no client can block another.

Three limits apply: the time to send a request header or to stay idle, the connections per client, and the connections
in total. A new connection beyond a limit closes the one that has been idle longest, so idle connections never block
others. Requests in progress are never closed; further requests beyond the limit get 503 with Retry-After.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .connections import Limits, limited_protocol
from .guard import with_security_headers


class RequestLimits:
    """ASGI middleware that rejects requests with an oversized header (431) or beyond the concurrency limit (503).

    on_reject: Called with the status of each rejection.
    """

    def __init__(self, app: ASGIApp, limits: Limits, on_reject: Callable[[int], None] = lambda status: None) -> None:
        self.app, self.limits, self.on_reject = app, limits, on_reject
        self.active: Counter[str] = Counter()  # requests in progress by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request."""
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
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # a float too
        **options,
    )
