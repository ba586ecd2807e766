"""Endpoints of the pages Runs and Train: run folders and their reports; starts, monitors, stops and resumes runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from ...core import config, registry, storage
from ...core.errors import InputError, RunError
from ...report.page import bundle, digest
from ...tasks.specs import spec_of
from ...train.finetuning.config import FinetuneConfig
from ..files import FILE_BYTES
from ..model_registry import OWN, LoadedModel, Studio
from ..requests import (
    Here,
    Json,
    Name,
    RequestModel,
    RowsRequest,
    body,
    form_fields,
    given_settings,
    read_body,
    request_model,
)
from ..run_folders import describe_run, find_run, list_runs, report_of

router = APIRouter()


# A file in a run folder may contain anything: in a sandbox, only the script of this version's reports may run.
REPORT_POLICY = (
    f"default-src 'none'; script-src '{digest(bundle('report.js'))}'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)


class RunsRequest(RequestModel):
    """Names of runs."""

    names: Annotated[list[Name], Field(min_length=1, max_length=6)]


@router.get("/api/runs")
def runs(studio: Here) -> Json:
    """Lists every run in the runs directory."""
    return Json({"runs": list_runs(studio.runs, studio.jobs), "folder": str(studio.runs)})


@router.post("/api/runs")
def some_runs(studio: Here, asked: Annotated[RunsRequest, body(RunsRequest)]) -> Json:
    """Returns settings, curves and results of the requested runs."""
    return Json({"runs": [describe_run(studio.runs, name, studio.jobs) for name in asked.names]})


@router.get("/report/{name:path}")
def report(name: str, studio: Here) -> Response:
    """Returns the report that a run wrote."""
    page = report_of(studio.runs, name)
    return Response(page, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(registry.names("task"))]
MOST_LOGGED = 200  # lines of the log, at about which curves have enough points
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class CheckRequest(RowsRequest):
    """An uploaded file and its task."""

    file: Name
    task: TaskName


class NewRun(CheckRequest):
    """A run; name: its folder; dev: another uploaded file, None to hold out 10% of `file`."""

    name: Name
    model: Name
    dev: Name | None = None


# Settings that the page has other fields for, or sets itself.
OTHERS = {"task", "model", "preset", "columns", "skip_bad_rows", "log_every"}
# A page must not start a run that never ends, or that fills the memory.
MOST = {"epochs": 1000, "lr": 1, "batch_size": 4096, "max_length": 8192, "seeds": 20, "seed": 2**32 - 1}
TrainingRequest = request_model(NewRun, FinetuneConfig, OTHERS, MOST)


class RunRequest(RequestModel):
    """The name of a run."""

    name: Name


class OpenRequest(RunRequest):
    """step: the checkpoint to open, None for the final model."""

    step: Annotated[int, Field(ge=0)] | None = None


@router.post("/api/train/upload")
async def upload(request: Request, studio: Here, ending: str = "") -> Json:
    """Stores the request body as a file and returns the generated name that identifies it."""
    return Json({"file": studio.uploads.add(await read_body(request, FILE_BYTES), ending.lower())})


@router.post("/api/train/check")
def check(studio: Here, asked: Annotated[CheckRequest, body(CheckRequest)]) -> Json:
    """Validates a file: returns examples and labels, or all invalid rows."""
    return Json(studio.uploads.describe(asked.file, asked.task, asked.roles, skip_bad_rows=asked.skip_bad_rows))


@router.get("/api/train/form")
def form(studio: Here) -> Json:
    """Returns the tasks with the form fields of their settings, and the tasks that suit each loaded model."""
    specs = {name: spec_of(name) for name in registry.names("task")}
    tasks = {
        name: {"title": spec.title or name, "settings": form_fields(FinetuneConfig, OTHERS, name)}
        for name, spec in specs.items()
    }
    suited = {
        model.name: [name for name, spec in specs.items() if model.network in spec.networks]
        for model in studio.models.values()
    }
    return Json({"tasks": tasks, "models": suited})


@router.post("/api/train/start")
def start(studio: Here, asked: Annotated[Any, body(TrainingRequest)]) -> Json:
    """Starts a run. Rejects invalid settings before creating a folder or a process."""
    model = studio.model(asked.model)
    if not _RUN_NAME.fullmatch(asked.name):
        raise InputError("A run name has at most 64 letters, digits, - and _.")
    output = storage.inside(studio.runs, asked.name)
    if output.exists():
        raise RunError(f"There is a run named {asked.name} already: use another name.")
    rows, _ = studio.uploads.read(asked.file, asked.task, asked.roles, skip_bad_rows=asked.skip_bad_rows)
    recipe = _recipe(studio, model, asked, output, len(rows))
    path = studio.runs / OWN / f"{asked.name}.toml"
    storage.write_text(path, config.to_toml(recipe), private=True)
    studio.jobs.start(asked.name, ["finetune", "--config", str(path.resolve())])
    return Json({"name": asked.name})


@router.post("/api/train/stop")
def stop(studio: Here, asked: Annotated[RunRequest, body(RunRequest)]) -> Json:
    """Asks a run to save a checkpoint and stop after the current step."""
    studio.jobs.stop(asked.name)
    return Json({"name": asked.name})


@router.post("/api/train/resume")
def resume(studio: Here, asked: Annotated[RunRequest, body(RunRequest)]) -> Json:
    """Resumes an unfinished fine-tuning run from its last checkpoint."""
    run = find_run(studio.runs, asked.name)
    if "task" not in run.recipe:
        raise InputError("Only fine-tuning runs resume here. To resume this run, rerun its command.")
    if Path(str(run.recipe.get("output", ""))).resolve() != run.path:
        raise InputError("This run was started in another directory: rerun the command that started it there.")
    if run.result is not None:
        raise InputError("This run is finished.")
    studio.jobs.start(asked.name, ["finetune", "--config", str(run.path / "config.toml")])
    return Json({"name": asked.name})


@router.post("/api/train/open")
def open_run(studio: Here, asked: Annotated[OpenRequest, body(OpenRequest)]) -> Json:
    """Loads the model of a finished run for use in the pages."""
    return Json({"model": studio.load_run_model(asked.name, asked.step).name})


def _recipe(studio: Studio, model: LoadedModel, asked: Any, output: Path, num_rows: int) -> FinetuneConfig:
    """Returns the settings for `finetune`, validated the same way, with absolute paths so that it can resume."""
    recipe = config.from_dict(
        FinetuneConfig,
        {
            **given_settings(asked, FinetuneConfig),
            "train": studio.uploads.path(asked.file),
            "dev": None if asked.dev is None else studio.uploads.path(asked.dev),
            "output": output,
            "task": asked.task,
            "model": str(model.folder.resolve()),
            "columns": asked.roles,
            "skip_bad_rows": asked.skip_bad_rows,
        },
    )
    steps = recipe.epochs * -(-num_rows // recipe.batch_size)
    most = model.model.config.max_position_embeddings
    return replace(recipe, max_length=min(recipe.max_length, most), log_every=max(1, steps // MOST_LOGGED))


@router.post("/api/train/watch")
def watch(studio: Here, asked: Annotated[RunRequest, body(RunRequest)]) -> Json:
    """Returns a run as in the page Runs; a run that just started or was rejected has no folder yet."""
    job = studio.jobs.get(asked.name)
    if job is not None and not (storage.inside(studio.runs, asked.name) / "config.toml").is_file():
        return Json(
            {
                "run": {
                    "name": asked.name,
                    "state": "running" if job.is_running else "unfinished",
                    "curves": {},
                    "main": None,
                    "has_report": False,
                    "has_model": False,
                    "lines": list(job.lines)[-12:],
                    "exit": None if job.is_running else job.process.returncode,
                }
            }
        )
    return Json({"run": describe_run(studio.runs, asked.name, studio.jobs)})
