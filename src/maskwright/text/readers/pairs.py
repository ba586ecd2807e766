"""Reads text-to-text pairs (translation, summarization), and creates summary pairs from a dump of articles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ...core.errors import InputError, RowError, RowErrors
from ...core.plural import plural
from ...core.progress import warn
from ..formats.files import file_format
from .corpus import CorpusFacts, Document, read_documents
from .tables import Row, Table, read_texts

ROLES = {"source": "text", "target": "text_pair"}  # table roles of source and target


def read_pairs(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    need_target: bool = True,
    skip_bad_rows: bool = False,
) -> Table:
    """Read rows whose `text` is the source and whose `label` is the target.

    A table has the columns source and target (or those in `columns`); without a header, the first two. In .txt each
    document is an article whose first line is the target and the rest the source (`lead_pairs`); skipped one-line
    documents are logged. Raises RowErrors for rows without a target, InputError if no column contains one, and other
    reading errors.
    """
    if need_target and file_format(path, default="txt") == "txt":
        facts = CorpusFacts()
        found = list(lead_pairs(read_documents(path, skip_bad_rows=skip_bad_rows, facts=facts)))
        if not found:
            raise InputError(f"{path} has no document of two or more lines: the first one is the summary of the rest.")
        if short := facts.documents - len(found):
            what = plural(short, "one-line document was", "one-line documents were")
            warn(f"{path}: {what} skipped.")
        return Table(found, {"text": "document", "label": "first line"}, facts.bad_rows)
    mapping = {ROLES.get(role, role): name for role, name in (columns or {}).items()}
    table = read_texts(path, columns=mapping or None, skip_bad_rows=skip_bad_rows, label_is_text=True)
    if need_target and not (table.has_pair or table.has_label):
        raise InputError(f"{path} has no column for the target: specify both with --columns source=NAME,target=NAME.")
    rows = [Row(row.text, None, row.text_pair or row.label, row.line, row.file) for row in table.rows]
    bad = [RowError(row.file, row.line, "target", "is missing") for row in rows if need_target and not row.label]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in rows if row.label or not need_target]
    if not good:
        raise InputError(f"{path} contains no row with a target.")
    return Table(good, table.columns, [*table.skipped, *bad], groups=table.groups)


def lead_pairs(documents: Iterable[Document]) -> Iterator[Row]:
    """Yields articles with their leads: the first line of a document as target, all following lines as source.

    Encyclopedia articles begin with a summary. A one-line document yields no pair.
    """
    for document in documents:
        lead, *rest = document.sentences
        if rest:
            yield Row("\n".join(rest), None, lead, document.line, document.file)
