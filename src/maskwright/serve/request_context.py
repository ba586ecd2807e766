"""What is known of a request while it is answered, how its result is awaited, and how it is rejected."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ..core.errors import ConfigError, InputError, MaskwrightError
from ..core.storage import read_bytes

# Of serve.worker, which imports this module.
Computation = Any
Stream = Any
Worker = Any

# -- Rejected requests: status, reason for the metrics, and one sentence ----------------------------------------------


# Reasons of maskwright_refused_total.
REASONS = (
    "json", "value", "key", "origin", "host", "not_found", "method", "type", "head", "size", "header", "slow",
    "queue_full", "deadline", "not_ready", "expired", "fault",
)  # fmt: skip


class Refused(Exception):
    """A request that gets no result.

    Args:
        status: HTTP status.
        reason: One of REASONS.
        sentence: What is wrong and what to do; it never quotes a text of the request.
        headers: Further headers of the response.
        param: Field of the request that is wrong, for the OpenAI dialect.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        sentence: str,
        headers: Mapping[str, str] | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence, self.param = status, reason, sentence, param
        self.headers = dict(headers or {})


def retry_after(seconds: float) -> dict[str, str]:
    """Returns the headers that say when to ask again."""
    seconds = max(seconds, 0.001)
    return {"retry-after": str(max(1, math.ceil(seconds))), "retry-after-ms": str(math.ceil(seconds * 1000))}


def wrong_value(sentence: str, param: str | None = None) -> Refused:
    """A field with a wrong value."""
    return Refused(422, "value", sentence, param=param)


def too_large(sentence: str) -> Refused:
    """More than a limit allows."""
    return Refused(413, "size", sentence)


# -- The request: for its response headers, its log line and the metrics ----------------------------------------------


_PREFIX, _NUMBERS = secrets.token_hex(6), count(1)  # a random number for each would let other threads in each time
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass
class Exchange:
    """One request.

    Attributes:
        id: Its id, of the client if that is printable.
        trace: Trace id of the traceparent header, "" for none.
        client: Name of the key, or address, whose use of the model it counts toward.
        timeout: Seconds until its deadline.
        fault: What is wrong with its headers, "" if nothing is.
        is_bulk: Whether it asked to wait for others (x-priority: bulk).
        reason: Why it was rejected, "" if it was not.
        route: Its route, "" if it is left to FastAPI to find it.
        headers: Further headers of the response.
    """

    id: str
    trace: str
    client: str
    timeout: float
    fault: str = ""
    is_bulk: bool = False
    key_name: str = ""
    model: str = ""
    reason: str = ""
    route: str = ""
    num_texts: int = 0
    num_tokens: int = 0
    num_truncated: int = 0
    queue_seconds: float = 0.0
    inference_seconds: float = 0.0
    start: float = field(default_factory=time.monotonic)
    headers: dict[str, str] = field(default_factory=dict)
    is_abandoned: bool = False

    @classmethod
    def of(cls, headers: Mapping[str, str], client: str, timeout: float) -> Exchange:
        """Reads the headers. An id or trace of another form than expected counts as absent."""
        given = headers.get("x-request-id", "")
        found = _TRACE.fullmatch(headers.get("traceparent", ""))
        wanted = _timeout(headers.get("x-request-timeout"), timeout)
        return cls(
            id=given if _ID.fullmatch(given) else f"{_PREFIX}-{next(_NUMBERS):x}",
            trace=found[1] if found else "",
            client=client,
            timeout=timeout if wanted is None else wanted,
            fault="" if wanted is not None else "The header x-request-timeout must be seconds above 0, as in 2.5.",
            is_bulk=headers.get("x-priority", "").strip().lower() == "bulk",
        )

    @property
    def seconds_left(self) -> float:
        return self.start + self.timeout - time.monotonic()

    def response_headers(self) -> dict[str, str]:
        found = {"x-request-id": self.id, **self.headers}
        if self.num_tokens:
            found |= {
                "x-compute-tokens": str(self.num_tokens),
                "x-queue-time": str(round(self.queue_seconds * 1000)),
                "x-inference-time": str(round(self.inference_seconds * 1000)),
                "x-truncated-texts": str(self.num_truncated),
            }
        return found

    def to_log(self, method: str, route: str, status: int) -> dict[str, Any]:
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z",
            "id": self.id,
            "trace_id": self.trace,
            "method": method,
            "route": route,
            "status": status,
            "model": self.model,
            "key": self.key_name,
            "texts": self.num_texts,
            "tokens": self.num_tokens,
            "truncated": self.num_truncated,
            "queue_ms": round(self.queue_seconds * 1000, 1),
            "inference_ms": round(self.inference_seconds * 1000, 1),
            "total_ms": round((time.monotonic() - self.start) * 1000, 1),
            **({"refused": self.reason} if self.reason else {}),
        }


def _timeout(given: str | None, most: float) -> float | None:
    """Seconds from x-request-timeout (seconds; "250ms" too), at most 10 times the default; None for a wrong value."""
    if given is None:
        return most
    text = given.strip().lower()
    scale = 0.001 if text.endswith("ms") else 1.0
    try:
        seconds = float(text.removesuffix("ms").removesuffix("s")) * scale
    except ValueError:
        return None
    return min(seconds, 10 * most) if seconds > 0 else None  # not a number is not above 0 either


# -- Waiting for a result, the deadline, the end of the connection, or that of the inference thread -------------------


LOOK_SECONDS = 1.0  # between two looks at the worker


async def result_of(call: Computation | Stream, request: Request, exchange: Exchange) -> Any:
    """Returns the result. Raises Refused after the deadline or the end of the connection, and for a wrong request."""
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({call.done, gone}, timeout=exchange.seconds_left, return_when=asyncio.FIRST_COMPLETED)
        if call.done.done():
            return checked(call)
        raise _left(exchange) if gone.done() else _expired()
    finally:
        gone.cancel()


def checked(call: Computation | Stream) -> Any:
    """Returns the result of a call that is done. Raises Refused for a wrong request."""
    try:
        return call.done.result()
    except (InputError, MaskwrightError) as error:
        raise wrong_value(str(error)) from None


async def next_event(stream: Stream, exchange: Exchange, gone: asyncio.Task[None] | None, worker: Worker) -> Any:
    """Returns the next event of a stream.

    gone: `disconnected` of its request, None if others watch the connection. Raises Refused as `result_of`, and if the
    inference thread does not answer.
    """
    getting = asyncio.ensure_future(stream.events.get())
    try:
        while not getting.done():
            left = exchange.seconds_left
            if left <= 0:
                raise _expired()
            waiting = {getting} if gone is None else {getting, gone}
            await asyncio.wait(waiting, timeout=min(left, LOOK_SECONDS), return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                break
            if gone is not None and gone.done():
                raise _left(exchange)
            if not worker.is_up:
                raise unanswered()
        return getting.result()
    finally:
        getting.cancel()


async def disconnected(request: Request) -> None:
    """Returns when the client closes the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _left(exchange: Exchange) -> Refused:
    exchange.is_abandoned = True
    return Refused(499, "slow", "The connection was closed before the answer.")


def unanswered() -> Refused:
    """The inference thread has ended, or hangs."""
    return Refused(503, "not_ready", "The inference thread does not answer: restart the server.", retry_after(5))


def _expired() -> Refused:
    return Refused(504, "expired", "The deadline passed before the answer: allow more time, or send it again later.")


# -- Bodies of errors: {"error", "error_type"} as Text Embeddings Inference, or below /v1 as OpenAI -------------------


OPENAI = "/v1/"
TEI_TYPES = {400: "Empty", 413: "Validation", 422: "Validation", 424: "Backend", 429: "Overloaded", 503: "Unhealthy"}
OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
OPENAI_CODES = {"not_found": "not_found", "key": "invalid_api_key", "size": "too_large", "queue_full": "queue_full"}
AS_400 = (422, 424)  # statuses that OpenAI's routes have as 400


def is_openai(path: str) -> bool:
    """Whether a path answers in OpenAI's form."""
    return path.startswith(OPENAI)


def status_of(refused: Refused, path: str) -> int:
    """Returns the HTTP status on this path."""
    return 400 if is_openai(path) and refused.status in AS_400 else refused.status


def error_body(refused: Refused, path: str) -> dict[str, Any]:
    """Returns the body on this path."""
    if is_openai(path):
        kind = OPENAI_TYPES.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
        code = "model_not_found" if refused.param == "model" else OPENAI_CODES.get(refused.reason)
        return {"error": {"message": refused.sentence, "type": kind, "param": refused.param, "code": code}}
    kind = TEI_TYPES.get(refused.status, "Validation" if refused.status < 500 else "Backend")
    return {"error": refused.sentence, "error_type": kind}


# -- API keys: read from a setting or a file, compared in constant time, named in the log -----------------------------


MOST_BYTES = 1 << 20
DEFAULT_NAME = "default"


class ApiKeys:
    """Accepted keys by name. Only their digests are kept.

    Args:
        key: A key, None for none.
        file: File with one `name:key` a line, None for none. Empty lines and lines that start with # are skipped.

    Raises ConfigError for a file that has no key or a line of another form.
    """

    def __init__(self, key: str | None = None, file: Path | None = None) -> None:
        self._key, self._file = key, file
        self._digests: list[tuple[str, bytes]] = []
        self.reload()

    def __bool__(self) -> bool:
        return bool(self._digests)

    def reload(self) -> None:
        """Reads the file again. Raises ConfigError like the constructor; then the keys stay as they were."""
        found = [] if self._key is None else [(DEFAULT_NAME, _digest(self._key.strip()))]
        if self._file is not None:
            found += _read(self._file)
        self._digests = found

    def name_of(self, authorization: str | None) -> str | None:
        """Returns the name of the key in an Authorization header, None if it is none of ours.

        Every key is compared, in constant time, so the duration says nothing about keys.
        """
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest(given.strip())
        found = None
        for name, known in self._digests:
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() == "bearer" else None


def _read(path: Path) -> list[tuple[str, bytes]]:
    try:
        text = read_bytes(path, limit_bytes=MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text: write one name:key a line.") from None
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, key = line.partition(":")
        if not colon or not name.strip() or not key.strip():
            raise ConfigError(f"{path}:{number} is no key: write name:key.")  # the line itself may be a secret
        found.append((name.strip(), _digest(key.strip())))
    if not found:
        raise ConfigError(f"{path} has no key: write one name:key a line.")
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
