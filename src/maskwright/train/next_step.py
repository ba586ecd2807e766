"""The batches of the next step, made in a thread while a device computes this one.

On a CPU the thread would take a core from the products that it waits for, so there everything is made when it is asked
for. Either way a step gets the same batches: they are functions of the seed and the step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class NextStep(Generic[Made]):
    """Gives what `make(step)` makes, in the order in which steps are asked for.

    ahead: whether the step after the one that is asked for is made meanwhile. At most one step is held.
    """

    def __init__(self, make: Callable[[int], Made], ahead: bool) -> None:
        self._make, self._ahead = make, ahead
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: tuple[int, Future[Made]] | None = None

    def take(self, step: int) -> Made:
        """What belongs to `step`. What went wrong while it was made is raised here."""
        if not self._ahead:
            return self._make(step)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[0] != step:
            waiting[1].exception()  # another step was made: wait for its end, and leave it
        made = waiting[1].result() if waiting is not None and waiting[0] == step else self._make(step)
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="maskwright-next-step")
        self._waiting = (step + 1, self._pool.submit(self._make, step + 1))
        return made

    def forget(self) -> None:
        """Leave what was made ahead: the next step begins elsewhere."""
        if self._waiting is not None:
            self._waiting[1].exception()
            self._waiting = None
