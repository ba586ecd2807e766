"""Corpus files as the texts that a trainer reads: the sentences of every document, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path


def read_texts(source: str | Path | Iterable[str | Path], *, skip_bad_rows: bool = False) -> Iterator[str]:
    """The sentences of corpus files, folders or patterns, in order."""
    from ..corpus import read_documents

    paths = source if isinstance(source, (str, Path)) else list(source)
    for document in read_documents(paths, skip_bad_rows=skip_bad_rows):
        yield from document.sentences
