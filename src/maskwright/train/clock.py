"""The speed of a training, for its log."""

from __future__ import annotations

import time


class Clock:
    """Tokens per second of training, excluding evaluation and saving."""

    def __init__(self) -> None:
        self.tokens, self.seconds, self.since = 0, 0.0, time.monotonic()

    def add(self, tokens: int) -> None:
        """Count a step's tokens and its time."""
        now = time.monotonic()
        self.tokens += tokens
        self.seconds += now - self.since
        self.since = now

    def skip(self) -> None:
        """Exclude the time since the last step."""
        self.since = time.monotonic()

    def read(self) -> dict[str, float]:
        """Tokens per second and seconds since the last call."""
        rate = self.tokens / max(self.seconds, 1e-9)
        result = {"tokens_per_second": round(rate, 1), "seconds": round(self.seconds, 3)}
        self.tokens, self.seconds = 0, 0.0
        return result
