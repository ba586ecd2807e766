"""How pages ask: small JSON bodies in, JSON out, and every refusal as one sentence."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.responses import JSONResponse

from ..core.errors import InputError, MaskwrightError, MissingFileError, RowErrors
from ..core.plural import plural
from ..core.progress import warn

if TYPE_CHECKING:
    from .shelf import Studio

BODY_BYTES = 1 << 20
BODY_SECONDS = 30.0
SHOWN_ROWS = 50

LongText = Annotated[str, StringConstraints(max_length=50_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(max_length=300)]


class TooLarge(InputError):
    """A body above its cap."""


class Asked(BaseModel):
    """What a page sends: names that we know, of the types that we name, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Json(JSONResponse):
    """JSON in plain ASCII, so that any character of a file name or a text can be sent."""

    def render(self, content: Any) -> bytes:
        """The bytes of the body."""
        return json.dumps(finite(content), separators=(",", ":")).encode("ascii")


AnyAsked = TypeVar("AnyAsked", bound=Asked)


def body(kind: type[AnyAsked]) -> Any:
    """A dependency that reads the request's body as `kind`. pydantic's own parser bounds depth and refuses half
    characters.
    """

    async def read(request: Request) -> AnyAsked:
        return kind.model_validate_json(await read_body(request, BODY_BYTES))

    return Depends(read)


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body. Raises TooLarge beyond the limit, InputError where it does not come in time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit_bytes:
                    raise TooLarge(f"This is more than the {limit_bytes:,} bytes that are read at once.")
                parts.append(part)
    except TimeoutError:
        raise InputError(f"The request did not come within {BODY_SECONDS:.0f} seconds.") from None
    return b"".join(parts)


def studio_of(request: Request) -> Studio:
    """The studio that a request is for."""
    return request.app.state.studio


Here = Annotated[Any, Depends(studio_of)]


def in_part(left_out: int, most: int) -> str:
    """What a page says where a model reads at most `most` tokens and left some out; "" where it read all."""
    if not left_out:
        return ""
    return f"{plural(left_out, 'token was', 'tokens were')} left out: the model reads at most {most:,} at once."


def finite(value: Any) -> Any:
    """The same without infinities and NaN, which JSON does not have: they become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value


def tell_errors(app: FastAPI) -> None:
    """Let every error of `app` be answered as {"error": sentence}, with the bad rows where rows are bad."""

    def answers(status: int) -> Callable[[Request, Any], Coroutine[Any, Any, Json]]:
        async def answer(request: Request, error: Exception) -> Json:
            return Json(_worded(error), 413 if isinstance(error, TooLarge) else status)

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
        return {"error": f"{count} bad row{'' if count == 1 else 's'}: mend the file.", "rows": rows, "count": count}
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "string_too_long":
            most = first["ctx"]["max_length"]
            return {"error": f"{where} is longer than the {most:,} characters that are read here."}
        return {"error": f"The request cannot be used: {where + ': ' if where else ''}{first['msg']}."}
    if isinstance(error, MaskwrightError):
        return {"error": str(error)}
    status = getattr(error, "status_code", None)
    if status is not None:
        return {"error": "There is no such page." if status == 404 else "This is not asked in this way."}
    warn(f"studio: {type(error).__name__}: {error}")
    return {"error": f"internal error: {type(error).__name__}. The terminal of the studio says more."}
