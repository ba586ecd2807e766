"""The data set files of the recipes, and their conversion."""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from maskwright.core import storage
from maskwright.core.errors import InputError

SIZES = "sizes.json"
TEXTS = ("wikipedia", "novels", "textbooks", "reuters", "speeches")  # of pretraining_text/


def data_folder() -> Path:
    """$MASKWRIGHT_DATA. Raises InputError where it names no folder."""
    named = os.environ.get("MASKWRIGHT_DATA", "")
    if not named or not Path(named).is_dir():
        raise InputError("Set MASKWRIGHT_DATA to the folder of the data sets.")
    return Path(named)


def data_file(name: str) -> Path:
    """A file in $MASKWRIGHT_DATA, such as "conll2003/dev.conll". Raises InputError where it is not there."""
    path = data_folder() / name
    if not path.is_file():
        raise InputError(f"{path} is missing: set MASKWRIGHT_DATA to a folder with {name}.")
    return path


def made_once(folder: Path, sizes: Mapping[str, object], make: Callable[[Path], None]) -> Path:
    """`folder`, which `make` fills the first time.

    sizes: the options that its content depends on. Raises InputError where it was made with others, or does not say.
    """
    if not folder.is_dir():
        with storage.new_folder(folder) as new:
            storage.write_json(new / SIZES, dict(sizes))
            make(new)
        return folder
    known = storage.read_json(folder / SIZES) if (folder / SIZES).is_file() else None
    if known is None:
        raise InputError(f"{folder} does not record its sizes ({SIZES}): pass another -o.")
    other = [f"--{name.replace('_', '-')}" for name, size in sizes.items() if known.get(name) != size]
    if other:
        raise InputError(f"{folder} was created with another {' and another '.join(other)}: pass another -o.")
    return folder


def documents_of(path: Path) -> Iterator[str]:
    """The documents of a text, packed or not, each with a sentence per line."""
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8") as lines:
        sentences: list[str] = []
        for line in [*lines, ""]:
            if line.strip():
                sentences.append(line.strip())
            elif sentences:
                yield "\n".join(sentences)
                sentences = []
