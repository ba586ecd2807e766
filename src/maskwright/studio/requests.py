"""Requests and responses of the pages: bounded JSON bodies, JSON responses, errors as one sentence."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from ..core.errors import InputError, MaskwrightError, MissingFileError, RowErrors
from ..core.plural import plural
from ..core.progress import warn

if TYPE_CHECKING:
    from .model_registry import Studio

BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0
SHOWN_ROWS = 50

LongText = Annotated[str, StringConstraints(max_length=50_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(max_length=300)]


class TooLarge(InputError):
    """The body exceeds its size limit."""


class TooLate(InputError):
    """The body did not arrive in time."""


STATUS: dict[type[Exception], int] = {TooLarge: 413, TooLate: 408}


class RequestModel(BaseModel):
    """Base of the request models: declared fields with strict types, no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Json(JSONResponse):
    """JSON response in ASCII, so that any character of a file name or a text can be encoded."""

    def render(self, content: Any) -> bytes:
        """Returns the encoded body."""
        return json.dumps(finite(content), separators=(",", ":")).encode("ascii")


AnyRequest = TypeVar("AnyRequest", bound=RequestModel)


def body(kind: type[AnyRequest]) -> Any:
    """Returns a dependency that parses the request body as `kind`.

    pydantic's own parser limits the nesting depth and rejects lone surrogates.
    """

    async def read(request: Request) -> AnyRequest:
        return kind.model_validate_json(await read_body(request, BODY_BYTES))

    return Depends(read)


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Reads the whole body. Raises TooLarge beyond the limit, TooLate if it does not arrive in time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit_bytes:
                    raise TooLarge(f"The request exceeds the limit of {limit_bytes:,} bytes.")
                parts.append(part)
    except TimeoutError:
        raise TooLate(f"The request did not arrive within {BODY_SECONDS:.0f} seconds.") from None
    except ClientDisconnect:
        raise TooLate("The connection was closed before the request had arrived.") from None
    return b"".join(parts)


def studio_of(request: Request) -> Studio:
    """Returns the studio that serves a request."""
    return request.app.state.studio


Here = Annotated[Any, Depends(studio_of)]


def in_part(left_out: int, most: int) -> str:
    """Returns the message for an input truncated to `most` tokens; "" if nothing was truncated."""
    if not left_out:
        return ""
    return f"{plural(left_out, 'token was', 'tokens were')} truncated: the maximum length is {most:,}."


def finite(value: Any) -> Any:
    """Returns `value` with infinities and NaN, which JSON does not support, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value


def register_error_handlers(app: FastAPI) -> None:
    """Registers handlers that return errors as {"error": sentence}, with the invalid rows of a data file."""

    def answers(status: int) -> Callable[[Request, Any], Coroutine[Any, Any, Json]]:
        async def answer(request: Request, error: Exception) -> Json:
            return Json(_worded(error), STATUS.get(type(error), status))

        return answer

    app.add_exception_handler(MaskwrightError, answers(422))
    app.add_exception_handler(MissingFileError, answers(404))
    app.add_exception_handler(ValidationError, answers(422))
    app.add_exception_handler(Exception, answers(500))
    app.add_exception_handler(404, answers(404))
    app.add_exception_handler(405, answers(405))


def _worded(error: Exception) -> dict[str, Any]:
    if isinstance(error, RowErrors):
        count = len(error.rows)
        rows = [{"line": row.line, "column": row.column, "reason": row.reason} for row in error.rows[:SHOWN_ROWS]]
        return {"error": f"{count} bad row{'' if count == 1 else 's'}: fix the file.", "rows": rows, "count": count}
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "string_too_long":
            most = first["ctx"]["max_length"]
            return {"error": f"{where} exceeds the limit of {most:,} characters."}
        return {"error": f"The request cannot be used: {where + ': ' if where else ''}{first['msg']}."}
    if isinstance(error, MaskwrightError):
        return {"error": str(error)}
    status = getattr(error, "status_code", None)
    if status is not None:
        return {"error": "There is no such page." if status == 404 else "This method is not supported here."}
    warn(f"studio: {type(error).__name__}: {error}")
    return {"error": f"internal error: {type(error).__name__}. The terminal of the studio shows details."}
