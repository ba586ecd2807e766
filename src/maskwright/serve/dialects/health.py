"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ..metrics import CONTENT_TYPE
from ..refusals import Refused, retry_after
from .routing import Call, add, json_response

router = APIRouter(tags=["Operation"])


async def health(call: Call) -> Response:
    """200 while the inference thread works."""
    if not call.service.is_healthy:
        raise Refused(503, "not_ready", "The inference thread does not answer: restart the server.", retry_after(5))
    return json_response({"status": "ok"})


async def ping(call: Call) -> Response:
    """As /health."""
    return await health(call)


async def ready(call: Call) -> Response:
    """200 once the models are loaded and warm, until draining."""
    call.service.check_ready()
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """Metrics in the Prometheus format."""
    return Response(call.service.metrics.render(), media_type=CONTENT_TYPE)


add(router, "GET", "/health", health, summary="Liveness")
add(router, "GET", "/ping", ping, summary="Liveness")
add(router, "GET", "/ready", ready, summary="Readiness")
add(router, "GET", "/metrics", metrics, summary="Prometheus metrics")
