"""Progress of a benchmark: number of finished runs, and estimated remaining time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from .config import BenchmarkConfig


class Clock:
    """Counts runs and their training rows. rows: number of training rows of each part."""

    def __init__(self, rows: Iterable[int], config: BenchmarkConfig) -> None:
        settings, others = config.settings, config.seeds - 1  # the first seed runs all settings
        self.total, self.rows = 0, 0
        for count in rows:
            self.total += len(settings) + others
            self.rows += count * (sum(one.epochs for one in settings) + others * settings[0].epochs)
        self.seen: set[Path] = set()
        self.started, self.rows_done, self.rows_now = time.monotonic(), 0, 0

    def announce(self, what: str) -> str:
        """The message before a run."""
        words = f"run {min(len(self.seen) + 1, self.total)} of {self.total}: {what}"
        if not self.rows_now:
            return words
        seconds = (time.monotonic() - self.started) * max(self.rows - self.rows_done, 0) / self.rows_now
        return f"{words}; about {max(round(seconds / 60), 1):,} min remaining"

    def tick(self, folder: Path, rows: int, *, is_new: bool) -> None:
        """Count the finished run in `folder`. is_new: whether it was trained now; rows: rows times epochs."""
        if folder in self.seen:
            return
        self.seen.add(folder)
        self.rows_done += rows
        self.rows_now += rows if is_new else 0
