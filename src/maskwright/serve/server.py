"""Runs the server: its socket, its signals, and a stop that loses no admitted request.

The first SIGTERM or SIGINT drains: new work is rejected with 503, admitted work ends, and the process exits with 0. A
second one ends it at once with 130. SIGHUP reads the keys again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from .. import __version__
from ..core.errors import ConfigError, MaskwrightError, RunError
from ..core.progress import note, warn
from ..http.connections import BACKLOG, Limits, listen, uvicorn_config
from .access import Access, exchange_of, refusal
from .dialects import hf, openai, routing, tei
from .request_context import Refused
from .service import FAILED, READY, Service
from .settings import ServeSettings

# -- The ASGI application of the server ------------------------------------------------------------------------------


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
    routers = [dialect.router for dialect in (routing, tei, openai, hf)]
    for router in routers:
        app.include_router(router)
    service.routes = frozenset(app.openapi()["paths"])
    found = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    service.endpoints = {
        (method, one.path): one.endpoint for one in found for method in one.methods or () if "{" not in one.path
    }
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


SPARE_FILES = 64  # open files besides connections
INTERRUPTED = 130
GARBAGE_SECONDS, MOST_GARBAGE_SECONDS = 10.0, 60.0  # between two collections of garbage: in general, and under load
FEW_REQUESTS = 100  # open ones, which are no load
SWITCH_SECONDS = 0.0005  # a thread that waits for the interpreter, such as the event loop, gets it after this time


def run_server(settings: ServeSettings, on_address: Callable[[str], None] = note) -> None:
    """Serves until a signal.

    on_address: called with the address once requests are answered. Raises ConfigError for wrong keys or certificates,
    RunError if the address cannot be used, and what loading a model raises.
    """
    app = create_app(settings)
    service: Service = app.state.service
    if settings.api_key is not None and settings.api_key_file is None and "MASKWRIGHT_API_KEY" not in os.environ:
        warn("--api-key is visible to other users of this machine: use MASKWRIGHT_API_KEY or --api-key-file.")
    listening = open_socket(settings)
    server = Server(server_config(app, settings))
    sys.setswitchinterval(SWITCH_SECONDS)
    service.on_loaded = _forget_lasting_objects
    try:
        with _only_while_open(settings.uds), asyncio.Runner() as runner:
            runner.run(_serve(server, service, listening, lambda: on_address(address_of(settings, listening))))
    finally:
        listening.close()
        service.close()
        gc.enable()
        gc.unfreeze()
    if service.failure is not None:
        raise service.failure
    if service.phase == FAILED:
        raise RunError("The server stopped because its models could not be loaded.")


def server_config(app: FastAPI, settings: ServeSettings) -> uvicorn.Config:
    """Returns the uvicorn configuration, with limits on headers, connections and slow clients."""
    limits = Limits(
        connections=_connections(settings.max_connections),
        connections_per_client=_connections(settings.max_connections),
    )
    config = uvicorn_config(
        app,
        limits,
        app.state.service.on_reject,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.grace)),
        backlog=BACKLOG,
        proxy_headers=False,
    )
    if settings.tls_cert is not None and settings.tls_key is not None:
        config.load()
        config.ssl = _certificate(settings.tls_cert, settings.tls_key)
    return config


def open_socket(settings: ServeSettings) -> socket.socket:
    """Returns the listening socket. Raises RunError if the address is in use."""
    if settings.uds is None:
        return listen(settings.port, settings.host)
    path = settings.uds
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # mode 0600
    try:
        if path.is_socket() and not _answers(path):
            path.unlink()  # of a server that was killed
        found.bind(str(path))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise RunError(f"The socket {path} cannot be used ({error.strerror}): choose another --uds.") from None
    finally:
        os.umask(before)
    return found


def address_of(settings: ServeSettings, listening: socket.socket) -> str:
    """Returns the address for clients."""
    if settings.uds is not None:
        return f"unix:{settings.uds}"
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, which end the process by the signal itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leaves signals to `Stopper`."""
        yield


class Stopper:
    """Signals of one running server. exit_code: of the process, None for 0."""

    def __init__(self, server: uvicorn.Server, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self.service, self.loop = server, service, loop
        self._draining: asyncio.Task[None] | None = None

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stop)
        if hasattr(signal, "SIGHUP"):
            self.loop.add_signal_handler(signal.SIGHUP, self.reload)

    def stop(self) -> None:
        """Starts draining; a second time, ends the process."""
        if self._draining is not None:
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        self.service.drain()
        self._draining = self.loop.create_task(self._drain())

    def reload(self) -> None:
        """Reads the keys again; a wrong file leaves them as they are."""
        try:
            self.service.keys.reload()
            note("The keys were read again.")
        except (MaskwrightError, OSError) as error:
            warn(f"The keys stay as they were: {error}")

    async def _drain(self) -> None:
        grace, began = self.service.settings.grace, time.monotonic()
        try:
            await asyncio.wait_for(self.service.idle(), grace)
        except TimeoutError:
            warn(f"Stopping with {self.service.num_active} unfinished requests after {grace:g} seconds.")
            self.server.force_exit = True
        left = grace - (time.monotonic() - began)  # for clients that still read their response
        self.server.config.timeout_graceful_shutdown = max(1, round(left))
        self.server.should_exit = True


async def _serve(
    server: uvicorn.Server, service: Service, listening: socket.socket, on_ready: Callable[[], None]
) -> None:
    stopper = Stopper(server, service, asyncio.get_running_loop())
    stopper.install()
    background = [asyncio.create_task(one) for one in (_announce(server, service, on_ready), _collect_garbage(service))]
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in background:
            task.cancel()


async def _announce(server: uvicorn.Server, service: Service, on_ready: Callable[[], None]) -> None:
    """Announces the address once the models are ready, or ends the server if they cannot be loaded."""
    while service.phase not in (READY, FAILED):
        await asyncio.sleep(0.02)
    if service.phase == FAILED:
        server.should_exit = True
    else:
        on_ready()


def _forget_lasting_objects() -> None:
    """Exempts what was loaded from garbage collection, and leaves the rest to `_collect_garbage`.

    Under load, the youngest objects are those of thousands of requests, and a look through them stops all threads for
    up to 50 ms. It finds little: a request leaves no reference cycle, and a closed connection a small one of asyncio's.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


async def _collect_garbage(service: Service) -> None:
    last = time.monotonic()
    while True:
        await asyncio.sleep(GARBAGE_SECONDS)
        if service.num_active <= FEW_REQUESTS or time.monotonic() - last >= MOST_GARBAGE_SECONDS:
            last = time.monotonic()
            gc.collect()


def _connections(wanted: int) -> int:
    """Raises the limit of open files if needed, and returns how many connections fit into it."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - SPARE_FILES))


def _certificate(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"The certificate {cert} and its key {key} cannot be used: {error}.") from None
    return context


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _only_while_open(path: Path | None) -> Generator[None, None, None]:
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
