"""What is known of a request while it is answered: for its response headers, its log line and the metrics."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

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
        route: Its route if it was rejected before the routes saw it, "" otherwise.
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
        """Time until the deadline."""
        return self.start + self.timeout - time.monotonic()

    def response_headers(self) -> dict[str, str]:
        """Returns the headers that describe the work."""
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
        """Returns the log line."""
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
