"""Reads run folders for the pages: the runs in one directory with their settings, logs and results.

A page names a run by its path below that folder. Every name is resolved and held to it, so that neither `..` nor a
link leads out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from ..core import config, locking, storage
from ..core.errors import InputError, MaskwrightError, MissingFileError, RunError, StorageError
from ..core.storage import is_model_folder
from ..train.checkpoint import list_checkpoints
from ..train.run import METRICS, RunFolder, kind_of

# -- Training runs of the studio: each is `maskwright finetune` in a separate process, never in the server -----------


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


DEPTH = 3  # folders below the folder of runs that are looked through
MOST_RUNS = 500
MOST_RECORDS = 1500  # of a curve; more points than a screen has tell nothing
LAST_BYTES = 1 << 14  # of a log that is searched for its last step
HIDDEN = ("model", "checkpoints", "best", "last")


def list_runs(root: Path, jobs: Jobs) -> list[dict[str, Any]]:
    """Lists all runs in `root`, newest first: name, kind, state, start time, main result.

    A folder that cannot be read has the state "unreadable" and an `error`.
    """
    if not root.is_dir():
        return []
    try:
        found = list(islice(_summaries(root, root, jobs, DEPTH), MOST_RUNS))
    except OSError as error:
        raise StorageError(f"{root} cannot be read: {error.strerror or error}.") from error
    return sorted(found, key=lambda run: run["started"] or "", reverse=True)


def find_run(root: Path, name: str) -> RunFolder:
    """Returns the run `name`. Raises MissingFileError if there is none, InputError if it is outside `root`."""
    path = storage.inside(root, name)
    try:
        is_run = path != root.resolve() and (path / "config.toml").is_file()
    except OSError:  # a name longer than any file's
        is_run = False
    if not is_run:
        raise MissingFileError("There is no run of this name.")
    return RunFolder(path, config.read_toml(path / "config.toml"))


def describe_run(root: Path, name: str, jobs: Jobs) -> dict[str, Any]:
    """Returns settings, curves by series (one per seed), results, steps of checkpoints, and the last output lines."""
    run = find_run(root, name)
    curves = {}
    if run.metrics_path.is_file():
        curves["run"] = run.records()
    for path in sorted(run.path.glob("seed-*")):
        curves[path.name] = RunFolder(path, run.recipe).records()
    job = jobs.get(name)
    recipe = json.loads(json.dumps(run.recipe, default=str))  # dates, which JSON lacks, as text
    return {
        **_summary(root, run.path, jobs),
        "settings": {key: value for key, value in recipe.items() if key != "output"},
        "curves": {series: _thinned(records) for series, records in curves.items()},
        "result": _plain(result if isinstance(result := run.result, dict) else {}),
        "checkpoints": [step for step, _ in list_checkpoints(checkpoints_of(run.path))],
        "lines": list(job.lines)[-12:] if job is not None else [],
        "exit": None if job is None or job.is_running else job.process.returncode,
    }


def checkpoints_of(run: Path) -> Path:
    """Returns the folder of a run's checkpoints: of a fine-tuning run, those of its first seed."""
    seeds = [path for path in sorted(run.glob("seed-*")) if not path.is_symlink()]
    return (seeds[0] if seeds else run) / "checkpoints"


def report_of(root: Path, name: str) -> bytes:
    """Returns the report page of a run. Raises MissingFileError if it has not been written yet."""
    path = find_run(root, name).path / "report.html"
    if not path.is_file() or path.is_symlink():
        raise MissingFileError("This run has no report yet: it is written at the end.")
    return storage.read_bytes(path, 64 << 20)


def _summaries(root: Path, folder: Path, jobs: Jobs, depth: int) -> Iterator[dict[str, Any]]:
    """Yields each directory with a config.toml and each unreadable one; does not follow links."""
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or not entry.is_dir() or entry.name.startswith(".") or entry.name in HIDDEN:
            continue
        try:
            if (entry / "config.toml").is_file():
                yield _summary(root, entry, jobs)
            elif depth:
                yield from _summaries(root, entry, jobs, depth - 1)
        except (MaskwrightError, OSError) as error:
            if entry.exists():  # not where it was removed meanwhile
                yield _unreadable(root, entry, error)


def _unreadable(root: Path, path: Path, error: Exception) -> dict[str, Any]:
    reason = str(error) if isinstance(error, MaskwrightError) else f"{path} cannot be read: {error}."
    return {
        "name": _name(root, path),
        "kind": "",
        "task": "",
        "state": "unreadable",
        "started": None,
        "main": None,
        "has_report": False,
        "has_model": False,
        "error": reason,
    }


def _name(root: Path, path: Path) -> str:
    return path.resolve().relative_to(root.resolve()).as_posix()


def _summary(root: Path, path: Path, jobs: Jobs) -> dict[str, Any]:
    name = _name(root, path)
    job = jobs.get(name)
    facts = storage.read_json(path / "run.json") if (path / "run.json").is_file() else {}
    result = storage.read_json(path / "result.json") if (path / "result.json").is_file() else None
    recipe = config.read_toml(path / "config.toml")
    if job is not None and job.is_running:
        state = "running"
    elif locking.is_locked(path):
        state = "training"  # in a process that the studio did not start
    else:
        state = "unfinished" if result is None else "finished"
    return {
        "name": name,
        "kind": kind_of(recipe).partition(" ")[2],
        "task": _text(recipe.get("task")) or _text(recipe.get("objective")) or "",
        "state": state,
        "step": None if state == "finished" else _last_step(path),
        "steps": recipe["steps"] if isinstance(recipe.get("steps"), int) else None,
        "started": _text(facts.get("started")) if isinstance(facts, dict) else None,
        "main": _main_result(result) if isinstance(result, dict) else None,
        "has_report": (path / "report.html").is_file(),
        "has_model": is_model_folder(path / "model"),
    }


def _main_result(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the main metric with its name; of pre-training the accuracy on held-out text."""
    scores, name = result.get("mean"), _text(result.get("main_metric"))
    if name is None and isinstance(result.get("scores"), Mapping):
        scores = result["scores"]
        accuracies = ["rtd_accuracy", *(key for key in scores if key.endswith("_accuracy")), "loss"]
        name = next((key for key in accuracies if key in scores), None)
    value = scores.get(name) if isinstance(scores, Mapping) and name else None
    return {"name": name, "value": value} if isinstance(value, (int, float)) else None


def _last_step(path: Path) -> int | None:
    """Returns the last logged step of an unfinished run, of its last seed."""
    logs = [log for log in (path / METRICS, *path.glob(f"seed-*/{METRICS}")) if log.is_file() and not log.is_symlink()]
    if not logs:
        return None
    with max(logs, key=lambda log: log.stat().st_mtime).open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - LAST_BYTES))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                return int(record["step"])
    return None


def _text(value: Any) -> str | None:
    """Returns `value` if it is text: a manually edited file may contain anything."""
    return value if isinstance(value, str) else None


def _thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns at most MOST_RECORDS evenly spaced records plus all with scores, reduced to numbers and text."""
    plain = [{name: value for name, value in one.items() if isinstance(value, (int, float, str))} for one in records]
    records = [record for record in plain if isinstance(record.get("step"), (int, float))]
    scored = [record for record in records if any(key.startswith("eval_") for key in record)]
    others = [record for record in records if not any(key.startswith("eval_") for key in record)]
    stride = -(-len(others) // MOST_RECORDS) or 1
    return sorted([*others[::-stride], *scored], key=lambda record: record["step"])


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens numbers by name, one level deep: `mean.accuracy`."""
    found: dict[str, Any] = {}
    for key, value in result.items():
        inner = value.items() if isinstance(value, Mapping) else [(None, value)]
        for name, one in inner:
            if isinstance(one, (int, float)) and not isinstance(one, bool):
                found[key if name is None else f"{key}.{name}"] = one
    return found
