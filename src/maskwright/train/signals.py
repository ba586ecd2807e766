"""Ctrl-C and SIGTERM during training: finish the step, save, exit; a second signal exits at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..core.progress import warn


class Interrupted(KeyboardInterrupt):
    """Training stopped on request after saving a checkpoint. The command line exits with 130."""


class StopRequest:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self.requested = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: records the first request, exits on the second."""
        if self.requested:
            os._exit(130)
        self.requested = True
        warn("stopping after this step and saving; a second signal stops at once and loses the last steps.")


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM in the main thread; elsewhere the caller's handlers stay."""
    request = StopRequest()
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
