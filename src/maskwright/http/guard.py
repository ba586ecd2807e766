"""Request filtering of a local server: accepts only same-site requests under the server's own host name.

Web pages in a browser on the same machine can send requests to a loopback address, and a DNS name can resolve to it
(DNS rebinding). `Host` must therefore name the server itself, and `Origin` and `Sec-Fetch-Site` must not name
another site.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SAFE_METHODS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def reject_foreign(scope: Mapping[str, Any], headers: Mapping[str, str], hosts: frozenset[str]) -> Response | None:
    """Returns the rejection of a request with a foreign host (421) or from a foreign site (403); None if accepted.

    Args:
        scope: ASGI scope of the request.
        headers: Result of `request_headers`.
        hosts: Accepted values of the `Host` header, including the port.
    """
    if headers.get("host") not in hosts:
        return PlainTextResponse("This server answers only under its own name, 127.0.0.1 or localhost.", 421)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None or scope["method"] not in SAFE_METHODS:
        is_own = origin == f"http://{headers['host']}" and site in ("same-origin", "none")
    else:
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        is_own = site in ("same-origin", "none") or is_link
    return None if is_own else PlainTextResponse("Requests of other sites are rejected.", 403)


def request_headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Returns headers by lowercase name. Values of a repeated header are joined, so they match no accepted value."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def with_security_headers(send: Send) -> Send:
    """Wraps `send` to add SECURITY_HEADERS to every response; headers set by the route take precedence."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]}
            more = [
                (key.encode(), value.encode()) for key, value in SECURITY_HEADERS.items() if key.encode() not in own
            ]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def is_request(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> bool:
    """Returns whether a connection is an HTTP request; handles it otherwise.

    `app` gets the lifespan. A WebSocket is closed, because no route has one.
    """
    if scope["type"] == "lifespan":
        await app(scope, receive, send)
    elif scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1008})
    return bool(scope["type"] == "http")
