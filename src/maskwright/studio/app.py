"""Defines the routes: one HTML shell for all pages, static files from memory, and the JSON endpoints."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ..core import storage
from ..core.errors import MissingFileError
from ..core.progress import note
from ..http.connections import LOOPBACK, Limits, listen, uvicorn_config
from ..inspect import page as inspect_page
from .guard import KEY, Guard, Keys
from .model_registry import Studio, load_models
from .pages import MOVED, PAGES, models_of, offered
from .requests import Here, Json, register_error_handlers
from .views import answers, files, inside, lessons, runs

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_app(studio: Studio) -> FastAPI:
    """Builds the application with all routes. The server wraps it in `Guard`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, default_response_class=Json)
    app.state.studio = studio
    for views in (answers, files, inside, lessons, runs):
        app.include_router(views.router)
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
    if name in MOVED:
        return RedirectResponse(f"/{MOVED[name]}")  # a browser keeps the state behind #
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


# -- The server: loads models, listens on the loopback address, announces the URL with its key ------------------------


LIMITS = Limits()


def run_studio(
    models: Sequence[str],
    port: int,
    runs: Path,
    *,
    open_browser: bool = True,
    device: str = "auto",
    precision: str = "auto",
    on_address: Callable[[str], None] = note,
) -> None:
    """Serves the pages until the process is interrupted, then asks its training runs to save and stop.

    Args:
        models: Model folders or Hugging Face Hub model IDs.
        port: Port to listen on; 0 selects any free port.
        runs: Directory of run folders.
        open_browser: Whether to open the first page in a browser.
        device: Device to compute on.
        precision: Precision (dtype) of the models.
        on_address: Called with the first URL, and with a new one each time the last was opened: each key works once.

    Raises:
        RunError: The port is in use.
    """
    studio = Studio(load_models(models, device, precision), runs, device, precision)
    static_files()  # cached before the first request
    listening = listen(port)
    number = listening.getsockname()[1]
    keys = Keys()

    def address(on_spent: Callable[[], None] | None = None) -> str:
        return f"http://{LOOPBACK}:{number}/?{KEY}={keys.issue(on_spent)}"

    def announce_next() -> None:
        with suppress(OSError):  # a closed terminal must not fail the request
            on_address(address(announce_next))

    server = uvicorn.Server(server_config(studio, number, keys))
    on_address(address(announce_next))
    try:
        with redirect_file(address()) if open_browser else nullcontext() as file:
            if file is not None:
                webbrowser.open(file.as_uri())
            server.run(sockets=[listening])
    finally:
        studio.jobs.stop_all()
        listening.close()


@contextmanager
def redirect_file(address: str) -> Iterator[Path]:
    """Creates an HTML file, readable only by its owner, that redirects to `address`; removes it on exit.

    The browser opens this file instead of the URL: other users can read a process's command line, but not the file.
    """
    with tempfile.TemporaryDirectory(prefix="maskwright-studio-") as folder:
        path = Path(folder) / "open.html"
        link = escape(address)
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}">'
        storage.write_text(path, f'{page}<a href="{link}">Maskwright studio</a>\n', private=True)
        yield path


def server_config(studio: Studio, port: int, keys: Keys, limits: Limits = LIMITS) -> uvicorn.Config:
    """Returns the uvicorn configuration: no access log, no WebSockets, `limits` on headers and connections."""
    guarded = Guard(make_app(studio), port, keys)
    return uvicorn_config(guarded, limits, lifespan="off", timeout_graceful_shutdown=5)
