"""The server as a Ray Serve application: replicas on several machines, reached through Ray's proxies (extra `scale`).

    serve run maskwright.serve.ray_serve:build models=runs/tickets/model replicas=2

Each replica is the application of `app.create_app`, with its own models, queue and limits. Ray starts, restarts and
scales replicas, and its proxies listen; host, port, TLS and connection limits are settings of Ray, not of Maskwright.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from ..core.config import assignments, from_dict
from ..core.errors import ConfigError, MissingExtraError
from .server import create_app
from .service import LOADING, Service
from .settings import ServeSettings

NAME = "maskwright"
POLL_SECONDS = 0.05
OPEN_REQUESTS = 1024  # more than the queue takes, so that the replica itself rejects the rest with 429
# Settings of `maskwright serve` that Ray's proxies replace.
OF_PROXIES = ("host", "port", "uds", "tls_cert", "tls_key", "max_connections", "grace")
LISTS = ("models", "model", "allowed_host", "cors_origin")
_services: list[Service] = []  # of the replica in this process, for its health


def build(options: Mapping[str, Any]) -> Any:
    """Return the Ray Serve application. `serve run` and `serve deploy` call this with their arguments.

    Args:
        options: Settings of `maskwright serve` by name, lists separated by commas; `replicas` (default: 1); `cpus` and
            `gpus` that Ray reserves for a replica (default: `threads`, else 1, and 0).

    Raises:
        ConfigError: an unknown setting, one that Ray's proxies replace, or a wrong value.
        MissingExtraError: without Ray Serve.
    """
    try:
        from ray import serve
    except ImportError:
        raise MissingExtraError("Serving on Ray", "scale") from None

    given = dict(options)
    replicas, cpus, gpus = (_number(given, name) for name in ("replicas", "cpus", "gpus"))
    settings = settings_of(given)
    resources = {"num_cpus": settings.threads or 1 if cpus is None else cpus, "num_gpus": gpus or 0}

    deployment = serve.deployment(
        name=NAME, num_replicas=int(replicas or 1), max_ongoing_requests=OPEN_REQUESTS, ray_actor_options=resources
    )
    return deployment(serve.ingress(lambda: application(settings))(Replica)).bind()


class Replica:
    """One replica; its routes are those of the application."""

    async def check_health(self) -> None:
        """Ray replaces the replica if this raises."""
        if not all(service.is_healthy for service in _services):
            raise RuntimeError("The inference thread does not work.")


def settings_of(options: Mapping[str, Any]) -> ServeSettings:
    """Return the settings of a replica from text values.

    Raises ConfigError for an unknown setting, one that Ray's proxies replace, or a wrong value.
    """
    for name in OF_PROXIES:
        if name in options:
            raise ConfigError(f"Setting '{name}' is that of Ray's proxies: set it in Ray's configuration.")
    values: dict[str, Any] = {}
    for name, value in options.items():
        if not isinstance(value, str):
            values[name] = value
        elif name in LISTS:
            values[name] = tuple(filter(None, value.split(",")))
        else:
            values |= assignments([f"{name}={value}"])
    return from_dict(ServeSettings, values)


def application(settings: ServeSettings) -> FastAPI:
    """Return the application of a replica. It is up once its models are loaded, so Ray sends no request before.

    Raises, when it starts: what loading a model raises.
    """
    app = create_app(settings)
    service: Service = app.state.service
    _services.append(service)
    start = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with start(app):
            while service.phase == LOADING:
                await asyncio.sleep(POLL_SECONDS)
            if service.failure is not None:
                raise service.failure
            yield

    app.router.lifespan_context = lifespan
    return app


def _number(options: dict[str, Any], name: str) -> float | None:
    value = options.pop(name, None)
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if number is not None and (number < 0 or (name == "replicas" and number < 1)):
        raise ConfigError(f"'{name}' is '{value}'; it must be a number of at least {int(name == 'replicas')}.")
    return number
