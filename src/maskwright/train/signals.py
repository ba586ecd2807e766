"""Ctrl-C and SIGTERM during training: finish the step, save, exit; a second signal exits at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..core.progress import warn


class Interrupted(KeyboardInterrupt):
    """Training stopped on request after saving a checkpoint. The command line exits with 130."""


REPEAT_SECONDS = 5.0  # within which a launcher passes on the signal that its processes have got already


class StopRequest:
    """Whether a stop was requested. is_shared: several processes under a launcher, which must agree on it first."""

    def __init__(self, is_shared: bool = False) -> None:
        self.requested, self.is_shared = False, is_shared
        self.is_agreed = False  # by several processes, at the same step
        self._since = 0.0

    @property
    def is_due(self) -> bool:
        """Whether to stop after the current step."""
        return self.is_agreed if self.is_shared else self.requested

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: records the first request, exits on the second."""
        now = time.monotonic()
        if self.requested and self.is_shared and now - self._since < REPEAT_SECONDS:
            return
        if self.requested:
            os._exit(130)
        self.requested, self._since = True, now
        if self.is_shared:
            return
        warn("stopping after this step and saving; a second signal stops at once and loses the last steps.")


@contextmanager
def stop_on_signals(is_shared: bool = False) -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM in the main thread; elsewhere the caller's handlers stay. is_shared: see StopRequest."""
    request = StopRequest(is_shared)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request.handle) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:  # a handler that was not set from Python cannot be restored
                signal.signal(number, handler)
