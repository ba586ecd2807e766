"""One JSON line for each request on standard error. A line never contains text, query or key.

A thread writes, so a slow reader of the log cannot delay requests; beyond a limit lines are dropped and counted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

MOST_LINES = 10_000


class RequestLog:
    """Writes lines in the background. stream: None for standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="maskwright-log", daemon=True)
        self._thread.start()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Queues one line."""
        line = json.dumps(entry, separators=(",", ":"))
        with self._changed:
            if len(self._lines) >= MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            self._changed.notify()

    def close(self) -> None:
        """Writes what is queued, and stops."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(2.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._is_stopping:
                    self._changed.wait()
                lines, dropped = list(self._lines), self._dropped
                self._lines.clear()
                self._dropped = 0
                stopping = self._is_stopping
            if dropped:
                lines.append(json.dumps({"dropped_lines": dropped}))
            if lines:
                stream = self.stream or sys.stderr
                try:
                    stream.write("\n".join(lines) + "\n")
                    stream.flush()
                except (OSError, ValueError):
                    return  # a closed standard error must not end the server
            if stopping:
                return
