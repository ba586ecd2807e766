"""What the routes of all dialects share: bodies, JSON answers and streams; and the routes of operation and of /docs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from html import escape
from typing import Annotated, Any, TypeVar

import numpy as np
import orjson
from fastapi import APIRouter, Request
from pydantic import Field, GetCoreSchemaHandler, StringConstraints, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from starlette.responses import Response, StreamingResponse

from ...http.bodies import RequestModel as Body
from ...http.bodies import TooLarge, TooLate, field_of, is_no_json, read_body, validation_sentence
from ...http.model_registry import LoadedModel
from ...inference.generate import ROWS, Continuation, Generation
from ..access import exchange_of
from ..metrics import CONTENT_TYPE
from ..request_context import Exchange, Refused, error_body, retry_after, too_large, wrong_value
from ..service import Service

Text = Annotated[str, StringConstraints(max_length=2_000_000)]
Texts = Text | list[Text]
NAMED = "/models/{name:path}"  # prefix of the routes of one model
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "title": "Name"}}
PART_VALUES = 50_000  # numbers written at once: about a millisecond
FEW = 2048  # items of a list whose sizes are added up


def optional(description: str, **limits: Any) -> Any:
    """A field that need not be sent. limits: as of pydantic's Field."""
    return Field(default=None, description=description, **limits)


class Unsupported:
    """Type of a parameter that existing clients may send, and that only works with values that change nothing.

    Args:
        why: What to do instead, or why there is none.
        allowed: Accepted values, besides null.
    """

    def __init__(self, why: str, *allowed: Any) -> None:
        self.why, self.allowed = why, allowed

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"enum": [None, *self.allowed]}

    def _checked(self, value: Any) -> Any:
        if value is None or any(type(value) is type(one) and value == one for one in self.allowed):
            return value
        only = f"only {orjson.dumps(self.allowed[0]).decode()} works" if self.allowed else "it is not supported"
        raise PydanticCustomError("unsupported", "{only} here: {why}", {"only": only, "why": self.why})


AnyBody = TypeVar("AnyBody", bound=Body)
Answering = Callable[..., Awaitable[Response]]  # Call, and the body if the route has one


class Call:
    """One request to a route: the service, what is known of the request."""

    def __init__(self, request: Request) -> None:
        self.request, self.name = request, request.path_params.get("name")
        self.service: Service = request.app.state.service
        self.exchange: Exchange = exchange_of(request)
        # See Service.
        self.compute = partial(self.service.compute, request, self.exchange)
        self.run = partial(self.service.run, request, self.exchange)
        self.in_text_thread = partial(self.service.in_text_thread, self.exchange)

    def find(self, ability: str, name: str | None = None) -> LoadedModel:
        """The named model, that of the address, or the first that can do it; see `Service.find`."""
        return self.service.find(self.exchange, ability, self.name if name is None else name)

    async def read(self, kind: type[AnyBody]) -> AnyBody:
        """Reads and checks the body. Raises Refused: 400, 408, 413, 415 or 422."""
        content_type = self.request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if content_type != "application/json" and not content_type.endswith("+json"):
            raise Refused(415, "type", "The body must be JSON: send it with Content-Type: application/json.")
        try:
            data = await read_body(self.request, self.service.settings.max_body_bytes)
        except TooLarge as error:
            raise too_large(str(error)) from None
        except TooLate as error:
            raise Refused(408, "slow", str(error), {"connection": "close"}) from None
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            if is_no_json(error):
                raise Refused(400, "json", "The body is not valid JSON in UTF-8.") from None
            raise wrong_value(validation_sentence(error), field_of(error) or None) from None


def add(
    router: APIRouter,
    method: str,
    path: str,
    answer: Answering,
    kind: type[Body] | None = None,
    *,
    summary: str,
    named: bool = False,
) -> None:
    """Adds a route, with `named` also below /models/NAME. kind: its request body; summary: for OpenAPI."""

    async def endpoint(request: Request) -> Response:
        call = Call(request)
        return await (answer(call) if kind is None else answer(call, await call.read(kind)))

    for where, suffix in ((NAMED + path, "_of_model"), (path, "")) if named else ((path, ""),):
        has_name = {"parameters": [NAME]} if "{name" in where else {}
        router.add_api_route(
            where,
            endpoint,
            methods=[method],
            summary=summary,
            operation_id=_identifier(path) + suffix,
            openapi_extra=has_name | ({} if kind is None else {"requestBody": _described(kind)}),
            response_class=Response,
            responses=RESPONSES,
        )


def json_response(value: Any) -> Response:
    """Returns a JSON response; numpy arrays are lists. A long one is written in parts, with other work in between."""
    if _size(value) <= PART_VALUES:
        return Response(_dumps(value), media_type="application/json")
    return StreamingResponse(_in_turns(value), media_type="application/json")


async def _in_turns(value: Any) -> AsyncIterator[bytes]:
    for part in json_parts(value):
        yield part
        await asyncio.sleep(0)


def json_parts(value: Any) -> Iterator[bytes]:
    """Yields the JSON of a value in parts of about PART_VALUES numbers or texts."""
    if _size(value) <= PART_VALUES or not isinstance(value, (dict, list, np.ndarray)):
        yield _dumps(value)
    elif isinstance(value, dict):
        for number, (key, one) in enumerate(value.items()):
            yield (b"," if number else b"{") + _dumps(key) + b":"
            yield from json_parts(one)
        yield b"}"
    else:
        start = 0
        while start < len(value):
            stop, size = start + 1, _size(value[start])
            while stop < len(value) and (size := size + _size(value[stop])) <= PART_VALUES:
                stop += 1
            yield b"," if start else b"["
            if stop == start + 1:
                yield from json_parts(value[start])
            else:
                yield _dumps(value[start:stop])[1:-1]
            start = stop
        yield b"]"


def _size(value: Any) -> int:
    """Number of numbers and texts in a value; about that, for a long list of lists."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if not isinstance(value, list) or not value:
        return 1
    if not isinstance(value[0], (dict, list, np.ndarray)):
        return len(value)
    return sum(map(_size, value)) if len(value) <= FEW else len(value) * _size(value[0])


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def as_list(texts: str | list[str], field: str = "inputs") -> list[str]:
    """Returns one text or a list of texts as a list. Raises Refused (400) if it is empty."""
    found = [texts] if isinstance(texts, str) else texts
    if not found or found == [""]:
        raise Refused(400, "value", f"'{field}' is empty: pass a text, or a list of texts.", param=field)
    return found


def _identifier(path: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in path).strip("_") or "root"


_JSON: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The result.", **_JSON},
    **{
        status: {"description": about, **_JSON}
        for status, about in {
            400: "No JSON, or nothing to do.",
            401: "The key is missing or wrong.",
            404: "No such model.",
            408: "The body did not arrive in time.",
            413: "Larger than a limit allows.",
            415: "The body is not JSON.",
            422: "A field has a wrong type or value.",
            424: "The model cannot do this.",
            429: "The queue is full; see Retry-After.",
            503: "Loading or shutting down; see Retry-After.",
            504: "The deadline passed.",
        }.items()
    },
}


def _described(kind: type[Body]) -> dict[str, Any]:
    """Returns the OpenAPI description of a request body, self-contained."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})
    return {"required": True, "content": {"application/json": {"schema": _inlined(schema, definitions)}}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
        return {key: _inlined(value, definitions) for key, value in schema.items()}
    return [_inlined(one, definitions) for one in schema] if isinstance(schema, list) else schema


# -- Generation as a stream: one step for each token, between packs and other streams ---------------------------------


Found = list[list[Continuation]]
Steps = Callable[[Callable[[Any], None]], Generator[None, None, Found]]


def generation_steps(model: LoadedModel, prompts: list[str], settings: Generation) -> Steps:
    """Returns the steps of a stream. With one prompt and one result it emits its text, and at last the result."""
    is_single = len(prompts) == 1 and settings.num_results == 1 and settings.beams == 1

    def steps(emit: Callable[[Any], None]) -> Generator[None, None, Found]:
        found = yield from model.generator.generate_steps(prompts, settings, emit if is_single else None)
        emit(found)
        return found

    return steps


async def event_stream(
    call: Call,
    model: LoadedModel,
    prompt: str,
    settings: Generation,
    describe: Callable[[str | Continuation], Any],
    last: bytes = b"",
) -> Response:
    """Returns server-sent events of one continuation: its text as it is generated, then the whole.

    describe: JSON of the event for new text, or for the whole; last: what follows the events. Errors before the first
    event are responses with their status, later ones the last event.
    """
    await count_tokens(call, model, [prompt])
    parts = call.service.stream(call.request, call.exchange, [prompt], generation_steps(model, [prompt], settings))
    first = await anext(parts)
    events = _events(call, first, parts, describe, last)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(
    call: Call, first: Any, rest: AsyncGenerator[Any, None], describe: Callable[[str | Continuation], Any], last: bytes
) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        try:
            yield _event(describe(_part(first)))
            async for part in rest:
                yield _event(describe(_part(part)))
            yield last
        except Refused as refused:
            call.exchange.reason = refused.reason
            yield _event(error_body(refused, call.request.url.path))


def _part(part: str | Found) -> str | Continuation:
    return part if isinstance(part, str) else part[0][0]


def _event(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


async def continuations(call: Call, model: LoadedModel, prompts: list[str], settings: Generation) -> Found:
    """Continuations of prompts, with the prompts' tokens counted."""
    await count_tokens(call, model, prompts)
    steps = generation_steps(model, prompts, settings)
    num_rows = min(len(prompts) * settings.num_results, ROWS)
    return await call.run(prompts, steps, num_rows)


async def count_tokens(call: Call, model: LoadedModel, prompts: list[str]) -> None:
    """Adds the tokens of prompts to those of the request, and those that do not fit to the truncated texts.

    Before the first step: afterwards, a full queue could reject what is computed already.
    """
    generator = model.generator
    lengths = await call.in_text_thread(model, prompts, lambda: [len(generator.ids_of(prompt)) for prompt in prompts])
    longest = generator.context_length
    call.exchange.num_tokens += sum(min(length, longest) for length in lengths)
    call.exchange.num_truncated += sum(length > longest for length in lengths)


# -- Liveness, readiness and metrics ----------------------------------------------------------------------------------


router = APIRouter(tags=["Operation"])


async def health(call: Call) -> Response:
    """200 while the inference thread works."""
    if not call.service.is_healthy:
        raise Refused(503, "not_ready", "The inference thread does not answer: restart the server.", retry_after(5))
    return json_response({"status": "ok"})


async def ready(call: Call) -> Response:
    """200 once the models are loaded and warm, until draining."""
    call.service.check_ready()
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """Metrics in the Prometheus format."""
    return Response(call.service.metrics.render(), media_type=CONTENT_TYPE)


add(router, "GET", "/health", health, summary="Liveness")
add(router, "GET", "/ping", health, summary="Liveness")
add(router, "GET", "/ready", ready, summary="Readiness")
add(router, "GET", "/metrics", metrics, summary="Prometheus metrics")


# -- /docs: a page that lists the routes; it loads nothing from anywhere ----------------------------------------------


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
