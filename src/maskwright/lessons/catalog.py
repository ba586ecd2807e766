"""All lessons by name, in teaching order, as lessons.toml describes them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..core.config import read_toml
from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .inputs import MOST, Input, parse_matrix
from .lesson import Lesson

CATALOG = Path(__file__).with_name("lessons.toml")
USUAL: dict[str, dict[str, Any]] = {
    "number": {"step": 0.1},
    "integer": {"step": 1},
    "text": {"minimum": 1, "maximum": MOST},
}


@cache
def lessons() -> dict[str, Lesson]:
    """Return name -> lesson, in order."""
    table = read_toml(CATALOG)
    return {
        name: _lesson(table["lectures"], **entry, name=name, module=module, part=part)
        for module, part in table["parts"].items()
        for name, entry in table[module].items()
    }


def lesson(name: str) -> Lesson:
    """Return a lesson. Raises ConfigError with the nearest name for an unknown one."""
    if name not in lessons():
        raise ConfigError(unknown_name("lesson", name, lessons()))
    return lessons()[name]


def _lesson(lectures: dict[str, str], lecture: str, about: str, functions: list[str], **entry: Any) -> Lesson:
    about = " ".join(about.split())
    inputs = tuple(_input(name=name, **one) for name, one in entry.pop("inputs", {}).items())
    return Lesson(lectures[lecture], lecture, about, tuple(functions), inputs, **entry)


def _input(kind: Any, default: Any, **entry: Any) -> Input:
    if kind == "matrix":
        default = parse_matrix(default) if default else ()
    elif kind == "number":
        default = float(default)
    return Input(kind=kind, default=default, **USUAL.get(kind, {}) | entry)
