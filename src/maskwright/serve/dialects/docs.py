"""/docs: a page that lists the routes. It loads nothing from anywhere, and works without the internet."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from .routing import Call, add

router = APIRouter(tags=["Operation"])

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;"
    "padding:0 1rem}code,pre{font:14px/1.5 ui-monospace,monospace}pre{overflow:auto;padding:.75rem;"
    "border:1px solid #8886;border-radius:6px}summary{cursor:pointer;padding:.25rem 0}h2{margin-top:2rem}"
)
BASE = "http://127.0.0.1:8080"


async def docs(call: Call) -> Response:
    """All routes, with their request bodies."""
    page = render(call.request.app.openapi(), call.service.models.names, str(call.request.base_url).rstrip("/"))
    return Response(page, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})


def render(openapi: dict[str, Any], models: list[str], base: str = BASE) -> str:
    """Returns the page for an OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, facts in methods.items():
            groups.setdefault(facts.get("tags", ["Other"])[0], []).append(_route(path, method.upper(), facts))
    named = ", ".join(f"<code>{escape(name)}</code>" for name in models) or "still loading"
    example = f"curl {base}/embed -H 'content-type: application/json' -d '{{\"inputs\": \"a text\"}}'"
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Maskwright server</title><style>{STYLE}</style>",
        f"<h1>Maskwright server</h1><p>Models: {named}.</p><pre>{escape(example)}</pre>",
        "<p>Machine-readable: <a href=/openapi.json>/openapi.json</a>.</p>",
    ]
    for name, routes in groups.items():
        parts += [f"<h2>{escape(name)}</h2>", *routes]
    return "".join(parts)


def _route(path: str, method: str, facts: dict[str, Any]) -> str:
    body = facts.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    shown = "" if body is None else f"<pre>{escape(json.dumps(_brief(body), indent=2, ensure_ascii=False))}</pre>"
    about = escape(facts.get("summary", ""))
    return f"<details><summary><code>{method} {escape(path)}</code> {about}</summary>{shown}</details>"


def _brief(schema: dict[str, Any]) -> Any:
    """Returns the fields of a body with their types in words."""
    if "properties" in schema:
        return {name: _brief(one) for name, one in schema["properties"].items()}
    if "anyOf" in schema:
        kinds = [_brief(one) for one in schema["anyOf"]]
        return " or ".join(dict.fromkeys(one if isinstance(one, str) else "object" for one in kinds))
    kind = schema.get("type", "any")
    if kind == "array":
        inner = _brief(schema.get("items", {}))
        return f"list of {inner if isinstance(inner, str) else 'object'}"
    return "text" if kind == "string" else str(kind)


add(router, "GET", "/docs", docs, summary="This page")
