"""Training runs of the studio: each is `maskwright finetune` in a separate process, never in the server."""

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
    """A process and the last lines of its output."""

    process: subprocess.Popen[str]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    @property
    def is_running(self) -> bool:
        """Whether the process is still running."""
        return self.process.poll() is None


class Jobs:
    """Training processes by run name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = Lock()

    def start(self, name: str, words: Sequence[str]) -> Job:
        """Starts `maskwright WORDS` as the run `name`. Raises RunError if it is running, InputError if too many are."""
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
        """Returns the latest process of a run; None if the studio started none."""
        return self._jobs.get(name)

    def stop(self, name: str) -> None:
        """Asks a run to save a checkpoint and stop. Raises InputError if it is not running."""
        job = self._jobs.get(name)
        if job is None or not job.is_running:
            raise InputError(f"{name} is not running here.")
        job.process.send_signal(signal.SIGTERM)

    def stop_all(self) -> None:
        """Asks all runs to save and stop; kills those that time out, which can resume as after a crash."""
        running = [job for job in self._jobs.values() if job.is_running]
        for job in running:
            job.process.send_signal(signal.SIGTERM)
        for job in running:
            try:
                job.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                job.process.kill()


def _listen(job: Job) -> None:
    """Stores the last lines of a process. An unread pipe would fill up and block the process."""
    assert job.process.stdout is not None
    for line in job.process.stdout:
        job.lines.append(line.rstrip())
