"""Requests that are rejected, each with its status, its reason for the metrics, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
