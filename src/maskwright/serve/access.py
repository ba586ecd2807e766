"""The outermost layer of the application: hosts, origins, keys, response headers, the log line and the metrics.

It decides everything that needs no body, and sees every response, errors of the framework too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..http.guard import LOOPBACK_NAMES, is_request, request_headers
from .metrics import OTHER, warn_of
from .request_context import REASONS, Exchange, Refused, error_body, status_of
from .service import DRAINING, Service

OPEN = ("/health", "/ready", "/ping")  # without a key
BASE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
}
ALLOWED_HEADERS = "authorization, content-type, x-request-id, x-request-timeout, x-priority, traceparent"
EXPOSED_HEADERS = (
    "x-request-id, x-compute-tokens, x-queue-time, x-inference-time, x-truncated-texts, retry-after, retry-after-ms"
)
OF_MODEL = "/models/{name}"


class Access:
    """ASGI middleware around the routes. It calls those without a parameter itself.

    FastAPI looks through all routes, twice, and for dependencies that none has: a fifth of what a short text cost the
    event loop.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await is_request(self.app, scope, receive, send):
            return
        headers = request_headers(scope)
        client = scope.get("client")
        exchange = Exchange.of(headers, client[0] if client else "", self.service.settings.timeout)
        scope.setdefault("state", {})["exchange"] = exchange
        status, is_started = 500, False

        async def sending(message: Message) -> None:
            nonlocal status, is_started
            if message["type"] == "http.response.start":
                status, is_started = message["status"], True
                message = {**message, "headers": [*message["headers"], *self._headers(headers, exchange)]}
            await send(message)

        try:
            answer = self._answer(scope, headers, exchange)
            endpoint = self.service.endpoints.get((scope["method"], scope["path"]))
            if answer is None and endpoint is not None:
                exchange.route = scope["path"]
                try:
                    answer = await endpoint(Request(scope, receive, sending))
                except Refused as refused:
                    answer = refusal(refused, scope["path"], exchange)
            await (self.app if answer is None else answer)(scope, receive, sending)
        except Exception as error:
            if not is_started:
                await self._fault(scope, exchange, error)(scope, receive, sending)
            else:
                warn_of(exchange, error)
                raise
        finally:
            self._record(scope, exchange, status)

    # -- private -----------------------------------------------------------------------------------------------------

    def _answer(self, scope: Scope, headers: Mapping[str, str], exchange: Exchange) -> Response | None:
        """Returns a rejection, or the response to a CORS preflight request; None if the routes respond."""
        try:
            self._check_host(headers)
            origin = headers.get("origin")
            if origin is not None and not self._is_own(origin, scope, headers):
                raise Refused(403, "origin", "This origin may not use the server: allow it with --cors-origin.")
            if origin is not None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                return Response(status_code=204)
            self._check_key(scope, headers, exchange)
            if exchange.fault:
                raise Refused(422, "value", exchange.fault)
            if scope["method"] == "POST" and (route := self._route(scope["path"])) is not None:
                try:
                    self.service.check_room(exchange)
                except Refused:
                    exchange.route = route
                    raise
        except Refused as refused:
            return refusal(refused, scope["path"], exchange)
        return None

    def _route(self, path: str) -> str | None:
        """The route of a path, as the routes name it; None if there is none."""
        if path.startswith("/models/"):
            named = f"{OF_MODEL}/{path.rpartition('/')[2]}"
            path = named if named in self.service.routes else OF_MODEL
        return path if path in self.service.routes else None

    def _fault(self, scope: Scope, exchange: Exchange, error: Exception) -> Response:
        """An internal error: the response contains the request id to report."""
        warn_of(exchange, error)
        sentence = f"The server made a mistake; report it with the request id {exchange.id}."
        return refusal(Refused(500, "fault", sentence), scope["path"], exchange)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        settings, host = self.service.settings, headers.get("host", "")
        if settings.uds is not None:
            return
        name = host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdecimal() else host
        if settings.allowed_host:
            is_ours = host in settings.allowed_host or name in settings.allowed_host
        else:
            is_ours = bool(self.service.keys) or settings.insecure or name in (*LOOPBACK_NAMES, settings.host)
        if not is_ours:
            raise Refused(421, "host", "The Host header names another server: use its address, or --allowed-host.")

    def _is_own(self, origin: str, scope: Scope, headers: Mapping[str, str]) -> bool:
        own = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        return origin in self.service.settings.cors_origin or origin == own

    def _check_key(self, scope: Scope, headers: Mapping[str, str], exchange: Exchange) -> None:
        if not self.service.keys or scope["path"] in OPEN:
            return
        name = self.service.keys.name_of(headers.get("authorization"))
        if name is None:
            raise Refused(
                401,
                "key",
                "This server needs a key: send it as Authorization: Bearer KEY.",
                {"www-authenticate": "Bearer"},
            )
        exchange.key_name = exchange.client = name

    def _headers(self, headers: Mapping[str, str], exchange: Exchange) -> list[tuple[bytes, bytes]]:
        found = [(name.encode(), value.encode("latin-1")) for name, value in exchange.response_headers().items()]
        found += BASE_HEADERS.items()
        origin = headers.get("origin")
        if origin is not None and origin in self.service.settings.cors_origin:
            found += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-headers", ALLOWED_HEADERS.encode()),
                (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
                (b"access-control-expose-headers", EXPOSED_HEADERS.encode()),
                (b"vary", b"origin"),
            ]
        if self.service.phase == DRAINING and "connection" not in exchange.headers:
            found.append((b"connection", b"close"))
        return found

    def _record(self, scope: Scope, exchange: Exchange, status: int) -> None:
        service, metrics = self.service, self.service.metrics
        route = exchange.route or getattr(scope.get("route"), "path_format", OTHER)
        if exchange.is_abandoned:
            status = 499
            metrics.abandoned.inc()
        metrics.requests.labels(route, exchange.model, str(status)).inc()
        metrics.request_seconds.observe(max(0.0, exchange.timeout - exchange.seconds_left))
        if exchange.reason in REASONS and not exchange.is_abandoned:
            metrics.refused.labels(exchange.reason).inc()
        if service.log is not None:
            service.log.write(exchange.to_log(scope["method"], route, status))


def refusal(refused: Refused, path: str, exchange: Exchange) -> Response:
    """Returns the response of a refused request, in the form of its path, and notes the reason."""
    exchange.reason = refused.reason
    return Response(
        orjson.dumps(error_body(refused, path)),
        status_of(refused, path),
        refused.headers,
        media_type="application/json",
    )


def exchange_of(request: Any) -> Exchange:
    """Returns the exchange of a request."""
    found: Exchange = request.scope["state"]["exchange"]
    return found
