"""Requests and responses of the pages: parsed JSON bodies, errors as one sentence."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from pydantic import StringConstraints, ValidationError

from ..core.errors import MaskwrightError, MissingFileError, RowErrors
from ..core.plural import plural
from ..core.progress import warn
from ..http.bodies import BODY_SECONDS, Json, RequestModel, TooLarge, TooLate, read_body
from ..http.errors import validation_sentence

if TYPE_CHECKING:
    from .model_registry import Studio

BODY_BYTES = 1 << 20
SHOWN_ROWS = 50

LongText = Annotated[str, StringConstraints(max_length=50_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(max_length=300)]


class FileRequest(RequestModel):
    """A model and a file; file: "" for the sample of the page; columns: column mapping, as text=body,label=y."""

    model: Name
    file: Name = ""
    columns: ShortText = ""
    skip_bad_rows: bool = False


STATUS: dict[type[Exception], int] = {TooLarge: 413, TooLate: 408}

AnyRequest = TypeVar("AnyRequest", bound=RequestModel)


def body(kind: type[AnyRequest]) -> Any:
    """Returns a dependency that parses the request body as `kind`.

    pydantic's own parser limits the nesting depth and rejects lone surrogates.
    """

    async def read(request: Request) -> AnyRequest:
        return kind.model_validate_json(await read_body(request, BODY_BYTES, BODY_SECONDS))

    return Depends(read)


def studio_of(request: Request) -> Studio:
    """Returns the studio that serves a request."""
    return request.app.state.studio


Here = Annotated[Any, Depends(studio_of)]


def in_part(left_out: int, most: int) -> str:
    """Returns the message for an input truncated to `most` tokens; "" if nothing was truncated."""
    if not left_out:
        return ""
    return f"{plural(left_out, 'token was', 'tokens were')} truncated: the maximum length is {most:,}."


def tokens_read(count: int, left_out: int, space: int, most: int) -> str:
    """Returns how many tokens of a text are read and, if some are not, why.

    space: tokens that the picture can show; most: those that the model can read.
    """
    if not left_out:
        return f"{plural(count, 'token is', 'tokens are')} read, none truncated."
    reason = f"the model reads at most {most:,}" if most <= space else f"the picture has space for {space:,}"
    return f"{count:,} of {count + left_out:,} tokens are read, {left_out:,} truncated: {reason}."


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
        return {"error": validation_sentence(error)}
    if isinstance(error, MaskwrightError):
        return {"error": str(error)}
    status = getattr(error, "status_code", None)
    if status is not None:
        return {"error": "There is no such page." if status == 404 else "This method is not supported here."}
    warn(f"studio: {type(error).__name__}: {error}")
    return {"error": f"internal error: {type(error).__name__}. The terminal of the studio shows details."}
