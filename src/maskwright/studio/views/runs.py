"""Endpoints of the page Runs: run folders, curves for comparison, and reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...report import Series
from ...report.charts.axes import Line, downsample, traces
from ..requests import Here, Json, Name, RequestModel, body
from ..run_folders import describe_run, list_runs, report_of

# A report has inline styles and no scripts; the sandbox blocks scripts whatever the file contains.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)

router = APIRouter()


class RunsRequest(RequestModel):
    """Names of runs."""

    names: Annotated[list[Name], Field(min_length=1, max_length=6)]


class CurvesRequest(RunsRequest):
    """One measure of some runs.

    axis: steps, or seconds since the first record; is_smooth: smooth long curves; is_log: for a logarithmic axis.
    """

    measure: Name
    axis: Literal["step", "time"] = "step"
    is_smooth: bool = True
    is_log: bool = False


@router.get("/api/runs")
def runs(studio: Here) -> Json:
    """Lists every run in the runs directory."""
    return Json({"runs": list_runs(studio.runs, studio.jobs), "folder": str(studio.runs)})


@router.post("/api/runs")
def some_runs(studio: Here, asked: Annotated[RunsRequest, body(RunsRequest)]) -> Json:
    """Returns settings, curves and results of the requested runs."""
    return Json({"runs": [describe_run(studio.runs, name, studio.jobs) for name in asked.names]})


@router.post("/api/runs/curves")
def curves(studio: Here, asked: Annotated[CurvesRequest, body(CurvesRequest)]) -> Json:
    """Returns the lines of the chart, as reports draw them: smoothed over raw values, means over seeds."""
    runs = [describe_run(studio.runs, name, studio.jobs) for name in asked.names]
    series = [_series(run["name"], records, asked) for run in runs for records in run["curves"].values()]
    found, dropped = traces(series, asked.is_log)
    lines = [
        {
            "name": one.name,
            "run": asked.names.index(one.name),
            "seeds": one.seeds,
            **_points(one.main),
            "behind": [_points(line) for line in one.background],
        }
        for one in found
    ]
    return Json({"lines": lines, "dropped": dropped})


def _series(name: str, records: list[dict[str, Any]], asked: CurvesRequest) -> Series:
    """Returns the records that have a measure; on the time axis, those with a time."""
    times = [record["time"] for record in records if isinstance(record.get("time"), (int, float))]
    start = min(times, default=0.0) if asked.axis == "time" else 0.0
    kept = [
        record for record in records if _is_number(record.get(asked.measure)) and _is_number(record.get(asked.axis))
    ]
    xs = [float(record[asked.axis]) - start for record in kept]
    return Series(name, xs, [record[asked.measure] for record in kept], None if asked.is_smooth else False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _points(line: Line) -> dict[str, list[float]]:
    short = downsample(line)
    return {"xs": short.x.tolist(), "ys": short.y.tolist()}


@router.get("/report/{name:path}")
def report(name: str, studio: Here) -> Response:
    """Returns the report that a run wrote."""
    page = report_of(studio.runs, name)
    return Response(page, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})
