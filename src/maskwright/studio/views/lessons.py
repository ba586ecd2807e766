"""The page Lessons: the lectures' numbers, computed when they are asked for, as `maskwright lessons` computes them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from ...core.errors import MissingFileError
from ...lessons import catalogue, running
from ...lessons.page import report
from ...train.report import render
from ..asking import Asked, Here, Json, Name, body

# The page of a lesson is ours, and no script runs in it; it stands in a frame of the studio's own page.
LESSON_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}

router = APIRouter()


class AskedLesson(Asked):
    """A lesson by name."""

    name: Name


@router.get("/api/lessons")
def lessons() -> Json:
    """All lessons in the order in which they are taught."""
    known = catalogue.lessons().values()
    names = ("name", "part", "lecture", "topic", "title", "about")
    return Json({"lessons": [{name: getattr(one, name) for name in names} for one in known]})


@router.post("/api/lessons/run")
def run(studio: Here, asked: Annotated[AskedLesson, body(AskedLesson)]) -> Json:
    """Run one; its page shows the same run."""
    with studio.computing:
        studio.lessons[asked.name] = running.run(asked.name)
    return Json(studio.lessons[asked.name].to_json())


@router.get("/lesson/{name}")
def page(name: str, studio: Here) -> Response:
    """The page of a lesson that was run."""
    if name not in studio.lessons:
        raise MissingFileError("This lesson was not run yet.")
    return HTMLResponse(render(report([studio.lessons[name]])), headers=LESSON_HEADERS)
