"""Who may ask the studio: the person who started it, in a page of the studio itself, and nobody else.

The studio listens on this machine alone, which does not keep out what runs in its browsers: a page of the web may send
requests here, and a name of the web may point here (DNS rebinding). So four things are checked before anything else:
the Host must be ours (rebinding), the Origin and Sec-Fetch-Site must be ours (cross-site), and the first address must
carry the key that the command printed. It is exchanged for a cookie and stripped from the address.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY = "key"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
SAFE_METHODS = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Lets requests of the studio's own pages through to `app`, and answers all others itself.

    port: where the studio listens; key: what the first address must carry.
    """

    def __init__(self, app: ASGIApp, port: int, key: str) -> None:
        self.app, self.key = app, key
        self.hosts = frozenset(f"{name}:{port}" for name in HOSTS)
        self.cookie = f"maskwright-studio-{port}"  # cookies are shared by all ports of a host
        self.session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self.refusal(scope)
        await (self.app if answer is None else answer)(scope, receive, _with_headers(send))

    def refusal(self, scope: Mapping[str, Any]) -> Response | None:
        """What to answer instead of the page: a refusal, or the exchange of the key; None where the page may answer."""
        headers = _headers(scope)
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This server answers only under its own name, 127.0.0.1 or localhost.", 421)
        if not self._is_own(scope, headers):
            return PlainTextResponse("Requests of other sites are refused.", 403)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == KEY]
        if given and scope["method"] == "GET":
            return self._exchange(scope["path"], given[0], [pair for pair in query if pair[0] != KEY])
        if not self._knows(headers.get("cookie", "")):
            return PlainTextResponse("Open the address that maskwright studio printed: it carries the key.", 403)
        return None

    def _is_own(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
        """Whether a page of the studio asked, or the person by an address or a link."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None or scope["method"] not in SAFE_METHODS:
            return origin == f"http://{headers['host']}" and site in ("same-origin", "none")
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("same-origin", "none") or is_link

    def _exchange(self, path: str, given: str, rest: list[tuple[str, str]]) -> Response:
        if not hmac.compare_digest(given.encode(), self.key.encode()):
            return PlainTextResponse("The key in this address is not that of this studio.", 403)
        clean = "/" + path.lstrip("/\\")  # an address that begins with // would name another host
        answer = RedirectResponse(clean + (f"?{urlencode(rest)}" if rest else ""), 303)
        answer.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")
        return answer

    def _knows(self, cookies: str) -> bool:
        pairs = (part.strip().partition("=") for part in cookies.split(";"))
        return any(
            name == self.cookie and hmac.compare_digest(value.encode(), self.session.encode())
            for name, _, value in pairs
        )


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Headers by small name; one that stands there twice holds both, so that it equals nothing that is allowed."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _with_headers(send: Send) -> Send:
    """`send`, with the headers of every answer; a route's own (the policy of a report) stay."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
