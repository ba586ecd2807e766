"""Endpoints of the page Lessons: runs lessons on request, as `maskwright lessons` does."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from ...core.errors import MissingFileError
from ...lessons import catalog, running
from ...lessons.lesson import Lesson, Result
from ...lessons.page import report
from ...report import render
from ...report.page import bundle, digest
from ..requests import Here, Json, Name, RequestModel, ShortText, body

KEPT_RUNS = 16  # whose pages can be requested

# A lesson page runs only the script that draws the charts of reports; the studio shows it in a frame.
LESSON_HEADERS = {
    "content-security-policy": f"default-src 'none'; script-src '{digest(bundle('report.js'))}'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}

router = APIRouter()


class LessonRequest(RequestModel):
    """A lesson name, with values of its inputs as texts; the others have the slide's."""

    name: Name
    values: Annotated[dict[Name, ShortText], Field(default_factory=dict, max_length=20)]


@router.get("/api/lessons")
def lessons() -> Json:
    """Lists all lessons in teaching order, with their inputs and the words that a search looks through."""
    return Json({"lessons": [_listed(one) for one in catalog.lessons().values()]})


@router.post("/api/lessons/run")
def run(studio: Here, asked: Annotated[LessonRequest, body(LessonRequest)]) -> Json:
    """Runs a lesson; `page` is the address of its page, which shows the same run."""
    with studio.computing:
        result = running.run(asked.name, asked.values)
    page = _address(result)
    studio.lessons.pop(page, None)
    studio.lessons[page] = result
    while len(studio.lessons) > KEPT_RUNS:
        studio.lessons.pop(next(iter(studio.lessons)), None)
    return Json(result.to_json() | {"page": page})


@router.get("/lesson/{name}")
def page(name: str, request: Request, studio: Here) -> Response:
    """Returns the page of a lesson that was run with these values."""
    query = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "at"])
    result = studio.lessons.get(f"/lesson/{quote(name)}{query and f'?{query}'}")
    if result is None:
        raise MissingFileError("This lesson was not run yet.")
    return HTMLResponse(render(report([result])), headers=LESSON_HEADERS)


def _listed(lesson: Lesson) -> dict[str, Any]:
    names = ("name", "part", "lecture", "topic", "title", "about", "question")
    functions = [f"maskwright.{name}" for name in lesson.functions]
    inputs = [one.to_json() for one in lesson.inputs]
    return {name: getattr(lesson, name) for name in names} | {"functions": functions, "inputs": inputs}


def _address(result: Result) -> str:
    """The address of a page: the lesson, and the values that are not the slide's."""
    pairs = [(one, result.values[one.name]) for one in result.lesson.inputs]
    query = urlencode([(one.name, one.written(value)) for one, value in pairs if value != one.default])
    return f"/lesson/{quote(result.lesson.name)}{query and f'?{query}'}"
