"""Requests and responses of the pages: parsed JSON bodies, errors as one sentence."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from pydantic import Field, StringConstraints, ValidationError, create_model

from ..core.config import Setting, default_of, default_text, kind_of, length_of, parse_pairs, settings_of
from ..core.errors import MaskwrightError, MissingFileError, RowErrors
from ..core.progress import warn
from ..core.util import plural
from ..http.bodies import BODY_SECONDS, Json, RequestModel, TooLarge, TooLate, read_body, validation_sentence
from .model_registry import Studio

BODY_BYTES = 1 << 20
SHOWN_ROWS = 50

LongText = Annotated[str, StringConstraints(max_length=50_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(max_length=300)]


class TextOfModel(RequestModel):
    """A model and a text for it."""

    model: Name
    text: LongText


class TextOrPair(TextOfModel):
    """A model, and a text or a pair of texts for it."""

    pair: LongText | None = None


class RowsRequest(RequestModel):
    """A file; file: "" for the sample of the page; columns: column mapping, as text=body,label=y."""

    file: Name = ""
    columns: ShortText = ""
    skip_bad_rows: bool = False

    @property
    def roles(self) -> dict[str, str]:
        """The column mapping. Raises ConfigError."""
        return parse_pairs(self.columns, "The column mapping")


class FileRequest(RowsRequest):
    """A model and a file."""

    model: Name


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


# -- Form fields of a page and its requests, both from the settings of a configuration -------------------------------


LONGEST_LABEL = 34  # characters of a help text that is used as a label
KINDS = {bool: "check", int: "integer", float: "number", str: "text"}


def form_fields(cls: type, without: Collection[str], task: str) -> list[dict[str, Any]]:
    """Describes the settings of a task for a form.

    Returns name, label, help, panel, kind (check, select, integer, number, numbers or text), choices, range and default
    of each setting, in the order of the configuration. Paths and tables have no field: a page cannot name files of the
    server.
    """
    found = []
    for one, setting, kind in _offered(cls, without):
        if setting.is_for(task):
            default = default_of(one)
            found.append(
                {
                    "name": one.name,
                    "label": _label(one.name, setting),
                    "help": setting.help,
                    "panel": setting.panel,
                    "kind": _form_kind(kind, default),
                    "choices": ["yes", "no"] if kind is bool else list(map(str, _choices(kind))),
                    "minimum": setting.minimum,
                    "maximum": setting.maximum,
                    "default": default_text(setting, default, task),
                }
            )
    return found


def request_model(
    base: type[RequestModel], cls: type, without: Collection[str], most: Mapping[str, float]
) -> type[RequestModel]:
    """Returns a request with an optional field for each setting. most: upper limits in addition to those of `cls`."""
    fields: dict[str, Any] = {}
    for one, setting, kind in _offered(cls, without):
        limit = Field(default=None, ge=setting.minimum, le=most.get(one.name, setting.maximum))
        taken = ShortText if kind is str else list[typing.get_args(kind)[0]] if length_of(kind) else kind  # type: ignore[misc]  # made here
        fields[one.name] = (taken | None, limit)
    return create_model(f"{cls.__name__}Request", __base__=base, **fields)


def given_settings(request: RequestModel, cls: type) -> dict[str, Any]:
    """Returns the settings that a request gives; the others keep their defaults."""
    names = settings_of(cls).keys() & type(request).model_fields.keys()
    return {name: value for name in names if (value := getattr(request, name)) is not None}


def _offered(cls: type, without: Collection[str]) -> list[tuple[dataclasses.Field[Any], Setting, Any]]:
    """The settings that a form offers, with their types."""
    hints = typing.get_type_hints(cls)
    found = []
    for one in dataclasses.fields(cls):
        kind = kind_of(hints[one.name])
        is_input = kind in KINDS or _choices(kind) or length_of(kind)
        if one.name not in without and kind is not Path and is_input:
            found.append((one, one.metadata["setting"], kind))
    return found


def _choices(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()


def _form_kind(kind: Any, default: Any) -> str:
    if kind is bool:
        return "check" if default is False else "select"
    return KINDS.get(kind, "select" if _choices(kind) else "numbers")


def _label(name: str, setting: Setting) -> str:
    """The beginning of the help if it is short, else the name, with the unit."""
    words = re.split(r"[;:.,(]", setting.help)[0].strip()
    words = words if len(words) <= LONGEST_LABEL else name.replace("_", " ").capitalize()
    is_known = not setting.unit or setting.unit in words or setting.unit in setting.help
    return words if is_known else f"{words} in {setting.unit}"
