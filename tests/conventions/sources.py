"""The source files, parsed, for the checks of house and style."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import maskwright

ROOT = Path(maskwright.__file__).parent
REPOSITORY = Path(__file__).parents[2]


@cache
def modules() -> dict[str, ast.Module]:
    """Parsed modules by dotted name without the package: "core.errors"."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def room(module: str) -> str:
    """The first folder (or file) of a module."""
    return module.split(".", maxsplit=1)[0]
