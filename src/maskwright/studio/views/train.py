"""Endpoints of the page Train: uploads and validates a file; starts, monitors, stops and resumes fine-tuning."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from ...core import config, registry, storage
from ...core.errors import InputError, RunError
from ...tasks.specs import spec_of
from ...train.finetuning.config import FinetuneConfig
from ..files import FILE_BYTES
from ..model_registry import OWN, LoadedModel, Studio
from ..requests import (
    Here,
    Json,
    Name,
    RequestModel,
    ShortText,
    body,
    form_fields,
    given_settings,
    read_body,
    request_model,
)
from ..run_folders import describe_run, find_run

if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(registry.names("task"))]
MOST_LOGGED = 200  # lines of the log, at about which curves have enough points
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

router = APIRouter()


class CheckRequest(RequestModel):
    """An uploaded file and its task; columns: column mapping, as text=body,label=y."""

    file: Name
    task: TaskName
    columns: ShortText = ""
    skip_bad_rows: bool = False


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
    columns = columns_of(asked.columns)
    return Json(studio.uploads.describe(asked.file, asked.task, columns, skip_bad_rows=asked.skip_bad_rows))


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
    rows, _ = studio.uploads.read(asked.file, asked.task, columns_of(asked.columns), skip_bad_rows=asked.skip_bad_rows)
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


def columns_of(text: str) -> dict[str, str]:
    """Parses `text=body,label=y` into a dict. Raises InputError for any other format."""
    pairs = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, equals, name = part.partition("=")
        if not (role.strip() and equals and name.strip()):
            raise InputError(f"Column mapping: '{part}' does not have the form text=body,label=y.")
        pairs[role.strip()] = name.strip()
    return pairs


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
            "columns": columns_of(asked.columns),
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
