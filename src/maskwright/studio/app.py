"""Defines the routes: one HTML shell for all pages, static files from memory, and the JSON endpoints."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import import_module, resources
from importlib.resources.abc import Traversable

from fastapi import FastAPI
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ..core.errors import MissingFileError
from ..inspect import page as inspect_page
from .model_registry import Studio
from .pages import PAGES, models_of, offered
from .requests import Here, Json, register_error_handlers

PARTS = ("why",)  # modules of `views` that several pages use
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_app(studio: Studio) -> FastAPI:
    """Builds the application with all routes. The server wraps it in `Guard`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, default_response_class=Json)
    app.state.studio = studio
    for routes in dict.fromkeys([*(page.routes for page in PAGES), *PARTS]):
        app.include_router(import_module(f".views.{routes}", __package__).router)
    app.get("/")(home)
    app.get("/api/studio")(about)
    app.get("/static/{path:path}")(static)
    app.get("/{name}")(page)
    register_error_handlers(app)
    return app


def home(studio: Here) -> Response:
    """Redirects to the first page of the menu."""
    return RedirectResponse(f"/{offered(studio)[0].name}", 303)


def about(studio: Here) -> Json:
    """Returns the loaded models, and for each page the models that it supports."""
    return Json(
        {
            "models": {name: model.to_json() for name, model in studio.models.items()},
            "pages": {page.name: [model.name for model in models_of(page, studio)] for page in offered(studio)},
            "runs": str(studio.runs),
        }
    )


def static(path: str) -> Response:
    """Returns a static file. Only files of the package are served; the URL never becomes a file path."""
    files = static_files()
    if path not in files:
        raise MissingFileError("There is no such file.")
    return Response(files[path], media_type=TYPES[path[path.rindex(".") :]])


def page(name: str, studio: Here) -> Response:
    """Returns the HTML shell of a page: head, menu, and an empty main element that the page's module fills."""
    shown = offered(studio)
    found = next((one for one in shown if one.name == name), None)
    if found is None:
        known = any(one.name == name for one in PAGES)
        raise MissingFileError("No loaded model is for this page." if known else "There is no such page.")
    links, group = [], ""
    for one in shown:
        if one.group != group:
            group = one.group
            links.append(f'<span class="group">{escape(group)}</span>')
        current = ' aria-current="page"' if one is found else ""
        links.append(f'<a href="/{one.name}"{current}>{escape(one.title)}</a>')
    shell = static_files()["shell.html"].decode("utf-8")
    filled = {"title": escape(found.title), "about": escape(found.about), "name": found.name, "menu": "\n".join(links)}
    for place, text in filled.items():
        shell = shell.replace("{{" + place + "}}", text)
    return HTMLResponse(shell)


@cache
def static_files() -> dict[str, bytes]:
    """Returns the content of every static file by its path relative to static/."""
    found: dict[str, bytes] = {}

    def visit(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                visit(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith((*TYPES, ".html")):
                found[prefix + entry.name] = entry.read_bytes()

    visit(resources.files(__package__).joinpath("static"), "")
    visit(
        resources.files("maskwright.report").joinpath("static"), "lib/"
    )  # the charts of reports are those of the studio
    # The page that `inspect` writes as a file: the studio shows the same modules.
    found["inspect/page.js"] = inspect_page.module().encode()
    found["inspect/page.css"] = inspect_page.style().encode()
    return found
