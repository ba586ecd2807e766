"""The page Runs: run folders, their curves side by side, and their reports."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ..asking import Asked, Here, Json, Name, body
from ..run_folders import describe_run, list_runs, report_of

# A report holds no script, and its styles stand in it; in the sandbox none would run, whatever a file holds.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)

router = APIRouter()


class AskedRuns(Asked):
    """Runs by name."""

    names: Annotated[list[Name], Field(min_length=1, max_length=6)]


@router.get("/api/runs")
def runs(studio: Here) -> Json:
    """Every run below the folder of runs."""
    return Json({"runs": list_runs(studio.runs, studio.jobs), "folder": str(studio.runs)})


@router.post("/api/runs")
def some_runs(studio: Here, asked: Annotated[AskedRuns, body(AskedRuns)]) -> Json:
    """Settings, curves and results of some of them."""
    return Json({"runs": [describe_run(studio.runs, name, studio.jobs) for name in asked.names]})


@router.get("/report/{name:path}")
def report(name: str, studio: Here) -> Response:
    """The report of a run, as the run wrote it."""
    page = report_of(studio.runs, name)
    return Response(page, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})
