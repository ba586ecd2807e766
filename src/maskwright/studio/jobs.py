"""Trainings that the studio began: each is `maskwright finetune` in a process of its own, never in the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread

from ..core.errors import InputError, RunError

KEPT_LINES = 200
GRACE_SECONDS = 20.0
AT_ONCE = 2


@dataclass
class Job:
    """One process and the last lines that it printed."""

    process: subprocess.Popen[str]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    @property
    def is_running(self) -> bool:
        """Whether the process is still there."""
        return self.process.poll() is None


class Jobs:
    """The processes by the name of their run."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = Lock()

    def start(self, name: str, words: Sequence[str]) -> Job:
        """Run `maskwright WORDS` for the run `name`. Raises RunError when it runs already, InputError at too many."""
        with self._lock:
            running = [one for one, job in self._jobs.items() if job.is_running]
            if name in running:
                raise RunError(f"{name} is running already.")
            if len(running) >= AT_ONCE:
                raise InputError(f"{len(running)} trainings are running: wait for one, or stop it.")
            job = Job(
                subprocess.Popen(
                    [sys.executable, "-m", "maskwright", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    env={**os.environ, "COLUMNS": "200"},
                    start_new_session=True,
                )
            )
            self._jobs[name] = job
        Thread(target=_listen, args=(job,), daemon=True).start()
        return job

    def get(self, name: str) -> Job | None:
        """The last process of a run, None where the studio began none."""
        return self._jobs.get(name)

    def stop(self, name: str) -> None:
        """Ask a training to save and stop. Raises InputError where none runs."""
        job = self._jobs.get(name)
        if job is None or not job.is_running:
            raise InputError(f"{name} is not running here.")
        job.process.send_signal(signal.SIGTERM)

    def stop_all(self) -> None:
        """Ask all to save and stop, and wait for them; what does not stop in time is killed, and resumes as a crash."""
        running = [job for job in self._jobs.values() if job.is_running]
        for job in running:
            job.process.send_signal(signal.SIGTERM)
        for job in running:
            try:
                job.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                job.process.kill()


def _listen(job: Job) -> None:
    """Keep the last lines of a process; without this it would stop when the pipe is full."""
    assert job.process.stdout is not None
    for line in job.process.stdout:
        job.lines.append(line.rstrip())
