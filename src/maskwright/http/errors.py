"""Errors of a request in one sentence."""

from __future__ import annotations

from pydantic import ValidationError


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
