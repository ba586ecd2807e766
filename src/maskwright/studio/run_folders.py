"""Run folders as the pages show them: what there is below one folder, its settings, logs and results.

A page names a run by its path below that folder. Every name is resolved and held to it, so that neither `..` nor a
link leads out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core import config, storage
from ..core.errors import MissingFileError
from ..train.run import RunFolder, kind_of
from .jobs import Jobs

DEPTH = 3  # folders below the folder of runs that are looked through
MOST_RUNS = 500
MOST_RECORDS = 1500  # of a curve; more points than a screen has tell nothing
HIDDEN = ("model", "checkpoints", "best", "last")


def list_runs(root: Path, jobs: Jobs) -> list[dict[str, Any]]:
    """Every run below `root`, the newest first: name, kind, state, when it began, its main result."""
    found = [_summary(root, path, jobs) for path in list(_find(root, DEPTH))[:MOST_RUNS]]
    return sorted(found, key=lambda run: run["started"] or "", reverse=True)


def find_run(root: Path, name: str) -> RunFolder:
    """The run of that name. Raises MissingFileError where there is none, InputError where the name leads out."""
    path = storage.inside(root, name)
    try:
        is_run = path != root.resolve() and (path / "config.toml").is_file()
    except OSError:  # a name longer than any file's
        is_run = False
    if not is_run:
        raise MissingFileError("There is no run of this name.")
    return RunFolder(path, config.read_toml(path / "config.toml"))


def describe_run(root: Path, name: str, jobs: Jobs) -> dict[str, Any]:
    """Settings, curves by series (one for each seed), results, and the last lines of its process, if it is ours."""
    run = find_run(root, name)
    curves = {}
    if run.metrics_path.is_file():
        curves["run"] = run.records()
    for path in sorted(run.path.glob("seed-*")):
        curves[path.name] = RunFolder(path, run.recipe).records()
    job = jobs.get(name)
    return {
        **_summary(root, run.path, jobs),
        "settings": {key: value for key, value in run.recipe.items() if key != "output"},
        "curves": {series: _thinned(records) for series, records in curves.items()},
        "result": _plain(run.result or {}),
        "lines": list(job.lines)[-12:] if job is not None else [],
        "exit": None if job is None or job.is_running else job.process.returncode,
    }


def report_of(root: Path, name: str) -> bytes:
    """The report page of a run. Raises MissingFileError before it is written."""
    path = find_run(root, name).path / "report.html"
    if not path.is_file() or path.is_symlink():
        raise MissingFileError("This run has no report yet: it is written at the end.")
    return storage.read_bytes(path, 64 << 20)


def _find(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a config.toml; links are not followed."""
    if not folder.is_dir() or depth < 0:
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or not entry.is_dir() or entry.name.startswith(".") or entry.name in HIDDEN:
            continue
        if (entry / "config.toml").is_file():
            yield entry
        else:
            yield from _find(entry, depth - 1)


def _summary(root: Path, path: Path, jobs: Jobs) -> dict[str, Any]:
    name = path.resolve().relative_to(root.resolve()).as_posix()
    job = jobs.get(name)
    facts = storage.read_json(path / "run.json") if (path / "run.json").is_file() else {}
    result = storage.read_json(path / "result.json") if (path / "result.json").is_file() else None
    recipe = config.read_toml(path / "config.toml")
    is_running = job is not None and job.is_running
    return {
        "name": name,
        "kind": kind_of(recipe).partition(" ")[2],
        "task": recipe.get("task") or recipe.get("objective") or "",
        "state": "running" if is_running else "finished" if result is not None else "unfinished",
        "started": facts.get("started") if isinstance(facts, dict) else None,
        "main": _main_result(result) if isinstance(result, dict) else None,
        "has_report": (path / "report.html").is_file(),
        "has_model": (path / "model" / "config.json").is_file(),
    }


def _main_result(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The one figure that says how good it is, with its name."""
    mean = result.get("mean")
    name = result.get("main_metric")
    if isinstance(mean, Mapping) and name in mean:
        return {"name": name, "value": mean[name]}
    return None


def _thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most MOST_RECORDS of the records, evenly, and every one with scores."""
    scored = [record for record in records if any(key.startswith("eval_") for key in record)]
    others = [record for record in records if not any(key.startswith("eval_") for key in record)]
    stride = -(-len(others) // MOST_RECORDS) or 1
    return sorted([*others[::-stride], *scored], key=lambda record: record["step"])


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers by name, one level of names deep: `mean.accuracy`."""
    found: dict[str, Any] = {}
    for key, value in result.items():
        inner = value.items() if isinstance(value, Mapping) else [(None, value)]
        for name, one in inner:
            if isinstance(one, (int, float)) and not isinstance(one, bool):
                found[key if name is None else f"{key}.{name}"] = one
    return found
