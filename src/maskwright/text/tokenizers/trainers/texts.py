"""Corpus files as training texts: the sentences of all documents in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path


def read_texts(
    source: str | Path | Iterable[str | Path],
    skip_bad_rows: bool = False,
    skipped: dict[str, int] | None = None,
) -> Iterator[str]:
    """Yields the sentences of corpus files, folders or patterns; `skipped`, if given, receives the skipped rows."""
    from ...readers.corpus import CorpusFacts, read_documents

    paths = source if isinstance(source, (str, Path)) else list(source)
    facts = CorpusFacts()
    for document in read_documents(paths, skip_bad_rows=skip_bad_rows, facts=facts):
        yield from document.sentences
    if skipped is not None and facts.skipped_rows:
        skipped["skipped_rows"] = facts.skipped_rows
