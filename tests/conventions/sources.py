"""The source files, parsed, for the checks of house and style."""

from functools import cache
from pathlib import Path

import maskwright

ROOT = Path(maskwright.__file__).parent
REPOSITORY = Path(__file__).parents[2]


@cache
def paths() -> dict[str, Path]:
    """The files of the modules, by dotted name without the package: "core.errors"."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}


def room(module: str) -> str:
    return module.split(".", maxsplit=1)[0]
