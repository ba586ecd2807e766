"""Ctrl-C and SIGTERM during a long job: finish the step, save, leave; a second signal leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..core.progress import warn


class Interrupted(KeyboardInterrupt):
    """The user asked to stop and everything is saved. The command line exits with 130."""


class StopRequest:
    """Whether a stop was asked for."""

    def __init__(self) -> None:
        self.asked = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: note the first request, leave on the second."""
        if self.asked:
            os._exit(130)
        self.asked = True
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
            signal.signal(number, handler)
