"""One JSON line for each request on standard error. A line never contains text, query or key.

A thread writes, so a slow reader of the log cannot delay requests; beyond a limit lines are dropped and counted.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

import orjson

from ..core.progress import warn
from .exchange import Exchange

MOST_LINES = 10_000
GATHER_SECONDS = 0.05  # lines of this time are written at once: a thread that wakes for each would delay the others


class RequestLog:
    """Writes lines in the background. stream: None for standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maskwright-log", daemon=True)
        self._thread.start()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Queues one line."""
        line = orjson.dumps(entry).decode()
        with self._changed:
            if len(self._lines) >= MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            if len(self._lines) == 1:
                self._changed.notify()

    def close(self) -> None:
        """Writes what is queued, and stops."""
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        self._thread.join(2.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._stopping.is_set():
                    self._changed.wait()
            self._stopping.wait(GATHER_SECONDS)
            with self._changed:
                lines, dropped = list(self._lines), self._dropped
                self._lines.clear()
                self._dropped = 0
                stopping = self._stopping.is_set()
            if dropped:
                lines.append(orjson.dumps({"dropped_lines": dropped}).decode())
            if lines:
                stream = self.stream or sys.stderr
                try:
                    stream.write("\n".join(lines) + "\n")
                    stream.flush()
                except (OSError, ValueError):
                    return  # a closed standard error must not end the server
            if stopping:
                return


def warn_of(exchange: Exchange, error: Exception) -> None:
    """Reports a fault of ours, without a text of the request."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_code.co_qualname}, line {place.tb_lineno}"
    warn(f"serve: request {exchange.id}: {type(error).__name__}{where}")
