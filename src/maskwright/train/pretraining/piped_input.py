"""Copies text that can be read only once (standard input, a pipe) to the run folder, for all stages and resuming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...core import storage
from ...core.errors import InputError, RowErrors
from ...text.formats.files import HUB, STDIN, open_bytes, reject_binary

_CHUNK_BYTES = 1 << 20


def save_piped_input(sources: Sequence[str], folder: Path, name: str) -> tuple[str, ...]:
    """The sources, each pipe replaced by a copy `folder`/`name`-N.txt that is made once.

    Raises InputError for binary data.
    """
    return tuple(
        str(_keep(source, folder / f"{name}-{number}.txt")) if _is_read_once(source) else source
        for number, source in enumerate(sources)
    )


@contextmanager
def name_piped_sources(sources: Sequence[str], kept: Sequence[str]) -> Iterator[None]:
    """Name the source instead of its copy in error messages, because the copy may be deleted by then."""
    names = {copy: _shown(source) for source, copy in zip(sources, kept, strict=True) if copy != source}
    try:
        yield
    except RowErrors as error:
        raise RowErrors([replace(row, file=names.get(row.file, row.file)) for row in error.rows]) from None
    except InputError as error:
        message = str(error)
        for copy, name in names.items():
            message = message.replace(copy, name)
        raise type(error)(message) from None


def _is_read_once(source: str) -> bool:
    if source == STDIN:
        return True
    path = Path(source)
    return not source.startswith(HUB) and path.exists() and not path.is_file() and not path.is_dir()


def _keep(source: str, copy: Path) -> Path:
    if copy.is_file():
        return copy
    with open_bytes(source) as handle, storage.open_new(copy) as written:
        reject_binary(handle.peek(_CHUNK_BYTES)[:_CHUNK_BYTES], _shown(source))
        while data := handle.read(_CHUNK_BYTES):
            storage.fs.write(written, data)
    return copy


def _shown(source: str) -> str:
    return "standard input" if source == STDIN else source
