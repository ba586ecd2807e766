"""Access control of the studio: accepts only the user who started it, from the studio's own pages.

`http.guard` rejects foreign hosts and cross-site requests. In addition, a browser must present a session cookie, which
it gets in exchange for a one-time key. The key in a URL expires on first use, so a URL that another user of the machine
reads later (in a history, a log, or a process list) gives no access.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..http.guard import LOOPBACK_NAMES, is_request, reject_foreign, request_headers, with_security_headers

KEY = "key"


class Keys:
    """One-time keys: each can be exchanged for a session cookie once."""

    def __init__(self) -> None:
        self._unspent: dict[str, Callable[[], None] | None] = {}

    def issue(self, on_spent: Callable[[], None] | None = None) -> str:
        """Returns a new key. on_spent: called when the key is used."""
        key = secrets.token_urlsafe(24)
        self._unspent[key] = on_spent
        return key

    def spend(self, given: str) -> bool:
        """Returns whether `given` is an unused key, and invalidates it."""
        found = [key for key in self._unspent if hmac.compare_digest(given.encode(), key.encode())]
        for key in found:
            on_spent = self._unspent.pop(key)
            if on_spent is not None:
                on_spent()
        return bool(found)


class Guard:
    """ASGI middleware that passes authenticated same-site requests to `app` and responds to all others itself.

    Args:
        app: The application to protect.
        port: Port of the studio.
        keys: One-time keys that can be exchanged for the session cookie.
    """

    def __init__(self, app: ASGIApp, port: int, keys: Keys) -> None:
        self.app, self.keys = app, keys
        self.hosts = frozenset(f"{name}:{port}" for name in LOOPBACK_NAMES)
        self.cookie = f"maskwright-studio-{port}"  # cookies are shared by all ports of a host
        self.session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await is_request(self.app, scope, receive, send):
            return
        answer = self.answer(scope)
        await (self.app if answer is None else answer)(scope, receive, with_security_headers(send))

    def answer(self, scope: Mapping[str, Any]) -> Response | None:
        """Returns the guard's own response, a rejection or a key exchange; None if `app` may respond."""
        headers = request_headers(scope)
        foreign = reject_foreign(scope, headers, self.hosts)
        if foreign is not None:
            return foreign
        is_known = self._knows(headers.get("cookie", ""))
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == KEY]
        if given and scope["method"] == "GET":
            if is_known or self.keys.spend(given[0]):
                rest = urlencode([pair for pair in query if pair[0] != KEY])
                # A path that begins with // would be a URL of another host.
                clean = "/" + scope["path"].lstrip("/\\") + (f"?{rest}" if rest else "")
                return self._enter(clean, headers.get("sec-fetch-site", "none"))
            return PlainTextResponse(
                "The key in this address is wrong or was used before: open the newest address that "
                "maskwright studio printed.",
                403,
            )
        if not is_known:
            return PlainTextResponse("Open the newest address that maskwright studio printed: it carries a key.", 403)
        return None

    def _enter(self, address: str, site: str) -> Response:
        """Sets the session cookie and redirects to `address`, which contains no key."""
        answer: Response
        if site in ("same-origin", "none"):
            answer = RedirectResponse(address, 303)
        else:
            # From the redirect file: an HTTP redirect would stay cross-site, without SameSite=Strict cookies.
            answer = HTMLResponse(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">'
                f'<a href="{escape(address)}">Maskwright studio</a>'
            )
        answer.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")
        return answer

    def _knows(self, cookies: str) -> bool:
        pairs = (part.strip().partition("=") for part in cookies.split(";"))
        return any(
            name == self.cookie and hmac.compare_digest(value.encode(), self.session.encode())
            for name, _, value in pairs
        )
