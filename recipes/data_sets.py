"""The files of the data sets that recipes read."""

from __future__ import annotations

import os
from pathlib import Path

from maskwright.core.errors import InputError


def data_file(name: str) -> Path:
    """A file in $MASKWRIGHT_DATA, such as "conll2003/dev.conll". Raises InputError where it is not there."""
    path = Path(os.environ.get("MASKWRIGHT_DATA", "")) / name
    if "MASKWRIGHT_DATA" not in os.environ or not path.is_file():
        raise InputError(f"Set MASKWRIGHT_DATA to a folder with {name}.")
    return path
