"""Texts with what is to be written for them: translations, summaries; and summaries made from a dump of articles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..core.errors import InputError, RowError, RowErrors
from ..core.plural import plural
from ..core.progress import warn
from .corpus import CorpusFacts, Document, read_documents
from .files import file_format
from .tables import Row, Table, read_texts

ROLES = {"source": "text", "target": "text_pair"}  # under which a table is read


def read_pairs(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    need_target: bool = True,
    skip_bad_rows: bool = False,
) -> Table:
    """Rows whose `text` is the source and whose `label` is the target.

    A table has columns source and target (or those that `columns` names), without a header the first two. Of a .txt
    each document is an article, whose first line is the target and the rest the source (`lead_pairs`); how many have
    one line alone is told. Raises RowErrors for rows without a target, InputError where no column holds one, and what
    reading raises.
    """
    if need_target and file_format(path, default="txt") == "txt":
        facts = CorpusFacts()
        found = list(lead_pairs(read_documents(path, skip_bad_rows=skip_bad_rows, facts=facts)))
        if not found:
            raise InputError(f"{path} has no document of two lines or more: the first is the summary of the others.")
        if short := facts.documents - len(found):
            what = plural(short, "document has one line and is", "documents have one line and are")
            warn(f"{path}: {what} left out.")
        return Table(found, {"text": "document", "label": "first line"}, facts.bad_rows)
    mapping = {ROLES.get(role, role): name for role, name in (columns or {}).items()}
    table = read_texts(path, columns=mapping or None, skip_bad_rows=skip_bad_rows)
    if need_target and not (table.has_pair or table.has_label):
        raise InputError(f"{path} has no column for the target: name both with --columns source=NAME,target=NAME.")
    rows = [Row(row.text, None, row.text_pair or row.label, row.line, row.file) for row in table.rows]
    bad = [RowError(row.file, row.line, "target", "is missing") for row in rows if need_target and not row.label]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in rows if row.label or not need_target]
    if not good:
        raise InputError(f"{path} holds no row with a target.")
    return Table(good, table.columns, [*table.skipped, *bad])


def lead_pairs(documents: Iterable[Document]) -> Iterator[Row]:
    """Articles with their leads, from a dump: the first line of a document, and all that follows it.

    That is how an encyclopedia writes: first what it is about. A document of one line gives no pair.
    """
    for document in documents:
        lead, *rest = document.sentences
        if rest:
            yield Row("\n".join(rest), None, lead, document.line, document.file)
