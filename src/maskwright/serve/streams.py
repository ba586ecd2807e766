"""Work in many steps: generation, translation, and anything else that is no single pack.

A stream is a generator that the inference thread advances; between two steps packs and other streams have their turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any

import torch

END = object()  # in the queue after the last event


class Stream:
    """A generator that runs in the inference thread, with its events and its result in the event loop.

    Args:
        steps: Yields after each step, and returns the result. Created in the inference thread on the first step.
        loop: Event loop of the request.
        num_rows: Texts that it generates at the same time.

    Attributes:
        events: What `emit` was given, then END.
        done: The result.
        is_gone: Set when nobody waits for the result: the next step closes the generator.
    """

    def __init__(
        self,
        steps: Callable[[Callable[[Any], None]], Generator[None, None, Any]],
        loop: asyncio.AbstractEventLoop,
        num_rows: int = 1,
    ) -> None:
        self.loop, self.num_rows = loop, num_rows
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.done: asyncio.Future[Any] = loop.create_future()
        self.is_gone = self.is_finished = False
        self.since = time.monotonic()
        self.queue_seconds = self.inference_seconds = 0.0
        self._make, self._steps = steps, None  # type: Any, Any

    def step(self) -> bool:
        """Runs one step; returns whether there are more. Called in the inference thread."""
        if self.is_finished:
            return False
        if self.is_gone:
            self._close()
            return False
        start = time.monotonic()
        if self._steps is None:
            self.queue_seconds = start - self.since
            self._steps = self._make(self._emit)
        try:
            with torch.inference_mode():
                next(self._steps)
        except StopIteration as end:
            self._finish(self._set, end.value)
        except Exception as error:
            self._finish(self._fail, error)
        self.inference_seconds += time.monotonic() - start
        return not self.is_finished

    def _close(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._finish(self._set, None)

    def _emit(self, event: Any) -> None:
        self._call(self.events.put_nowait, event)

    def _finish(self, function: Callable[[Any], None], value: Any) -> None:
        self.is_finished = True
        self._call(function, value)

    def _set(self, value: Any) -> None:
        if not self.done.done():
            self.done.set_result(value)
        self.events.put_nowait(END)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # it may be read from the events only
        self.events.put_nowait(END)

    def _call(self, function: Callable[..., None], value: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(function, value)
        except RuntimeError:  # the event loop has closed: nobody waits
            self.is_gone = True
