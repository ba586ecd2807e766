"""Progress of long jobs on standard error: what, how far, how fast, how long still. Standard output stays clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LOG_EVERY_SECONDS = 10.0

_quiet = False


def set_quiet(quiet: bool) -> None:
    """Silence notes and progress (warnings still come through)."""
    global _quiet
    _quiet = quiet


@contextmanager
def be_silent() -> Iterator[None]:
    """No notes and no progress inside; what was set before comes back."""
    before = _quiet
    set_quiet(True)
    try:
        yield
    finally:
        set_quiet(before)


def console() -> Console:
    """A console on the standard error of this moment (tests and notebooks replace it)."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """Tell the user one fact, unless --quiet."""
    if not _quiet:
        console().print(message, markup=False)


def warn(message: str) -> None:
    """Tell the user something that they should not miss, even with --quiet."""
    console().print(f"warning: {message}", style="yellow", markup=False)


class Track:
    """One long job. `update` takes the amount done so far and a few words on its state."""

    def __init__(
        self, description: str, total: float | None, unit: str, bar: Progress | None, begin: float = 0
    ) -> None:
        self.description, self.total, self.unit, self.bar, self.begin = description, total, unit, bar, begin
        self.started = self.last_line = time.monotonic()
        self.task = bar.add_task(description, total=total, completed=int(begin), detail="") if bar is not None else None

    def update(self, done: float, detail: str = "") -> None:
        """Show that `done` of `total` is done; without a terminal, print a line every ten seconds."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=done, detail=detail)
        elif not _quiet and time.monotonic() - self.last_line >= LOG_EVERY_SECONDS:
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
    """Show the progress of a job: a bar with rate and time left on a terminal, plain lines elsewhere.

    begin: what was done before, by an earlier start of the job; it does not count in the rate.
    """
    if _quiet or not console().is_terminal:
        yield Track(description, total, unit, None, begin)
        return
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
