"""Form fields of a page and its requests, both from the settings of a configuration."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from ..core.options import Setting, default_of, default_text, kind_of, length_of, settings_of
from .requests import RequestModel, ShortText

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
