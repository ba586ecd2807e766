"""Endpoints of the page Runs: run folders, curves for comparison, and reports."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...report.page import bundle, digest
from ..requests import Here, Json, Name, RequestModel, body
from ..run_folders import describe_run, list_runs, report_of

# A file in a run folder may contain anything: in a sandbox, only the script of this version's reports may run.
REPORT_POLICY = (
    f"default-src 'none'; script-src '{digest(bundle('report.js'))}'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)

router = APIRouter()


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
