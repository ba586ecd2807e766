"""Progress of long jobs on standard error: description, amount, rate and time left. Standard output stays clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

LOG_EVERY_SECONDS = 10.0

_quiet = False  # --quiet
_silent_blocks = 0  # blocks of `be_silent` that are open, in any thread
_blocks_without_warnings = 0
_printed: set[str] | None = None  # warnings of an open `warn_once`
_counting = Lock()


def set_quiet(quiet: bool) -> None:
    """Turns notes and progress off (warnings are still printed)."""
    global _quiet
    _quiet = quiet


def _is_quiet() -> bool:
    return _quiet or _silent_blocks > 0


@contextmanager
def be_silent(*, warnings: bool = False) -> Iterator[None]:
    """Turns notes and progress off inside the block, whose end may overlap other such blocks of other threads.

    warnings: also warnings, in a process whose messages another one prints.
    """
    global _silent_blocks, _blocks_without_warnings
    with _counting:
        _silent_blocks += 1
        _blocks_without_warnings += warnings
    try:
        yield
    finally:
        with _counting:
            _silent_blocks -= 1
            _blocks_without_warnings -= warnings


@contextmanager
def warn_once() -> Iterator[None]:
    """Prints each warning of a block only once, such as that of data that several models are trained on."""
    global _printed
    before, _printed = _printed, set()
    try:
        yield
    finally:
        _printed = before


def console() -> Console:
    """Returns a console on the current standard error (tests and notebooks replace it)."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """Prints a message to standard error, unless --quiet."""
    if not _is_quiet():
        console().print(message, markup=False)


def warn(message: str) -> None:
    """Prints a warning to standard error, even with --quiet."""
    if _printed is not None:
        if message in _printed:
            return
        _printed.add(message)
    if not _blocks_without_warnings:
        console().print(f"warning: {message}", style="yellow", markup=False)


class Track:
    """One long job. `update` takes the amount done so far and a short status text."""

    def __init__(
        self, description: str, total: float | None, unit: str, bar: Progress | None, begin: float = 0
    ) -> None:
        self.description, self.total, self.unit, self.bar, self.begin = description, total, unit, bar, begin
        self.started = self.last_line = time.monotonic()
        self.task = bar.add_task(description, total=total, completed=int(begin), detail="") if bar is not None else None

    def update(self, done: float, detail: str = "") -> None:
        """Updates the bar; without a terminal, prints a line every ten seconds."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=done, detail=detail)
        elif not _is_quiet() and time.monotonic() - self.last_line >= LOG_EVERY_SECONDS:
            self.last_line = time.monotonic()
            note(self._line(done, detail))

    def _line(self, done: float, detail: str) -> str:
        seconds = time.monotonic() - self.started
        rate = (done - self.begin) / seconds if seconds > 0 else 0.0
        if self.total:
            left = (self.total - done) / rate if rate > 0 else 0.0
            amount = f"{done:,.0f}/{self.total:,.0f} {self.unit}, {rate:,.1f}/s, {_clock(left)} left"
        else:
            amount = f"{done:,.0f} {self.unit}, {rate:,.1f}/s"
        return f"{self.description}: {amount}{'; ' + detail if detail else ''}"


@contextmanager
def track(description: str, total: float | None = None, unit: str = "items", begin: float = 0) -> Iterator[Track]:
    """Shows the progress of a job: a bar with rate and time left on a terminal, plain lines elsewhere.

    begin: amount done by an earlier start of the job; it is excluded from the rate.
    """
    if _is_quiet() or not console().is_terminal:
        yield Track(description, total, unit, None, begin)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    with Progress(*columns, console=console(), transient=True) as bar:
        yield Track(description, total, unit, bar, begin)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
