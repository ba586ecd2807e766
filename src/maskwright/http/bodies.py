"""Request bodies and responses of JSON: bounded in bytes and time, strict in types, finite in numbers."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from ..core.errors import InputError

# -- Errors of a request in one sentence -----------------------------------------------------------------------------


def validation_sentence(error: ValidationError) -> str:
    """Returns the first problem of a request body, with the field. It never quotes the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = field_of(error)
    if first["type"] == "string_too_long":
        return f"{where} exceeds the limit of {first['ctx']['max_length']:,} characters."
    return f"The request cannot be used: {where + ': ' if where else ''}{first['msg']}."


def field_of(error: ValidationError) -> str:
    """Returns the field of the first problem, such as "inputs.0", without names of types; "" for the whole body."""
    parts = error.errors(include_url=False, include_input=False)[0]["loc"]
    return ".".join(str(part) for part in parts if isinstance(part, int) or part.isidentifier())


def is_no_json(error: ValidationError) -> bool:
    """Whether the body is not JSON at all."""
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"


BODY_SECONDS = 30.0


class TooLarge(InputError):
    """The body exceeds its size limit."""


class TooLate(InputError):
    """The body did not arrive in time."""


class RequestModel(BaseModel):
    """Base of the request models: declared fields with strict types, no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Json(JSONResponse):
    """JSON response in ASCII, so that any character of a file name or a text can be encoded."""

    def render(self, content: Any) -> bytes:
        return json.dumps(finite(content), separators=(",", ":")).encode("ascii")


async def read_body(request: Request, limit_bytes: int, seconds: float = BODY_SECONDS) -> bytes:
    """Reads the whole body. Raises TooLarge beyond the limit, TooLate if it does not arrive in time."""
    parts: list[bytes] = []
    size = 0
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > limit_bytes:
        raise TooLarge(f"The request exceeds the limit of {limit_bytes:,} bytes.")
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit_bytes:
                    raise TooLarge(f"The request exceeds the limit of {limit_bytes:,} bytes.")
                parts.append(part)
    except TimeoutError:
        raise TooLate(f"The request did not arrive within {seconds:.0f} seconds.") from None
    except ClientDisconnect:
        raise TooLate("The connection was closed before the request had arrived.") from None
    return b"".join(parts)


def finite(value: Any) -> Any:
    """Returns `value` with infinities and NaN, which JSON does not support, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value
