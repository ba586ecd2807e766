"""The source code that a lesson shows: the functions of the toolkit that computed its numbers."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .lesson import Code

PACKAGE = "maskwright"
MOST_LINES = 60


def find(name: str) -> tuple[Any, str]:
    """Return the owner and the name of a function: "objectives.masking:Masker.select" -> (Masker, "select")."""
    module, _, path = name.partition(":")
    owner: Any = import_module(f"{PACKAGE}.{module}")
    *outer, last = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, last


def code_of(names: Iterable[str]) -> tuple[Code, ...]:
    """Return the source code of each function, at most MOST_LINES lines."""
    return tuple(Code(f"{PACKAGE}.{name}", _text(name)) for name in names)


def _text(name: str) -> str:
    owner, last = find(name)
    lines = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(owner, last)))).rstrip().split("\n")
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:MOST_LINES], f"# and {len(lines) - MOST_LINES} more lines"])
