"""Prefetches the batches of the next step in a thread while a GPU computes this one.

On a CPU the thread would compete with the computation for a core, so there batches are made on demand. Both ways give
the same batches, which are functions of the seed and the step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Returns the result of `make(step)` for consecutive steps.

    ahead: whether the following step is prefetched. At most one step is held in memory.
    """

    def __init__(self, make: Callable[[int], Made], ahead: bool) -> None:
        self._make, self._ahead = make, ahead
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: tuple[int, Future[Made]] | None = None

    def take(self, step: int) -> Made:
        """The result for `step`. Exceptions of the thread are raised here."""
        if not self._ahead:
            return self._make(step)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0] != step:
            waiting[1].exception()  # another step was prefetched: wait for it and discard it
        made = waiting[1].result() if waiting is not None and waiting[0] == step else self._make(step)
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="maskwright-next-step")
        self._waiting = (step + 1, self._pool.submit(self._make, step + 1))
        return made

    def forget(self) -> None:
        """Discard the prefetched step: the next one is not its successor."""
        if self._waiting is not None:
            self._waiting[1].exception()
            self._waiting = None
