"""The ASGI application of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from .. import __version__
from .access import Access, exchange_of, refusal
from .refusals import Refused
from .service import Service
from .settings import ServeSettings

DIALECTS = ("health", "tei", "openai", "hf", "docs")
STATUSES = {404: ("not_found", "There is no such route: see /docs."), 405: ("method", "Use another method: see /docs.")}


def create_app(settings: ServeSettings) -> FastAPI:
    """Returns the application. Its models load in the background once its lifespan starts; until then /ready is 503.

    `app.state.service` is the Service, for its phase, metrics and draining.
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="Maskwright",
        version=__version__,
        description="Language encoders over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for name in DIALECTS:
        app.include_router(import_module(f".dialects.{name}", __package__).router)
    service.routes = frozenset(app.openapi()["paths"])
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_middleware(Access, service=service)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return refusal(error, request.url.path, exchange_of(request))


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason, sentence = STATUSES.get(error.status_code, ("value", "The request cannot be answered: see /docs."))
    headers = dict(error.headers or {})
    return refusal(Refused(error.status_code, reason, sentence, headers), request.url.path, exchange_of(request))
