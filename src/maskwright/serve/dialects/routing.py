"""What the routes of all dialects share: reading bodies, describing them in OpenAPI, and answering in JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

import numpy as np
import orjson
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, StringConstraints, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from starlette.responses import Response, StreamingResponse

from ...http.bodies import TooLarge, TooLate, field_of, is_no_json, read_body, validation_sentence
from ..access import exchange_of
from ..exchange import Exchange
from ..refusals import Refused, too_large, wrong_value
from ..service import Service

Text = Annotated[str, StringConstraints(max_length=2_000_000)]
Texts = Text | list[Text]
NAMED = "/models/{name:path}"  # prefix of the routes of one model
PART_VALUES = 50_000  # numbers written at once: about a millisecond
FEW = 2048  # items of a list whose sizes are added up


class Body(BaseModel):
    """Base of request bodies: strict types, declared fields only."""

    model_config = ConfigDict(extra="forbid", strict=True)


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
Answer = Callable[["Call"], Awaitable[Response]]


class Call:
    """One request to a route: the service, what is known of the request, and its parsed body."""

    def __init__(self, request: Request, name: str | None) -> None:
        self.request, self.name = request, name
        self.service: Service = request.app.state.service
        self.exchange: Exchange = exchange_of(request)
        self.body: Any = None

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
    answer: Answer,
    kind: type[Body] | None = None,
    *,
    summary: str,
    named: bool = False,
) -> None:
    """Adds a route, with `named` also below /models/NAME. kind: its request body; summary: for OpenAPI."""

    async def plain(request: Request) -> Response:
        return await _answered(request, None)

    async def of_model(request: Request, name: str) -> Response:
        return await _answered(request, name)

    async def _answered(request: Request, name: str | None) -> Response:
        call = Call(request, name)
        if kind is not None:
            call.body = await call.read(kind)
        return await answer(call)

    extra = {} if kind is None else {"requestBody": _described(kind)}
    options: Mapping[str, Any] = {
        "methods": [method],
        "summary": summary,
        "openapi_extra": extra,
        "response_class": Response,
        "responses": RESPONSES,
    }
    if named:
        router.add_api_route(NAMED + path, of_model, operation_id=f"{_identifier(path)}_of_model", **options)
    router.add_api_route(path, of_model if "{name" in path else plain, operation_id=_identifier(path), **options)


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
