"""Reads two line-aligned files: line n of one is the translation of line n of the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import warn
from ...core.util import plural
from ..formats.files import file_format, read_lines
from .corpus import CorpusFacts, Document, read_documents
from .tables import Row, Table, read_texts, shown


def read_parallel(source: Path | str, target: Path | str, *, skip_bad_rows: bool = False) -> Table:
    """Read rows whose `text` is a line of `source` and whose `label` is the same line of `target`, plain or compressed.

    A pair with an empty side is a bad row; blank lines at the end of both files are ignored. Warns if both files are
    the same. Raises RowErrors with every bad row unless they are skipped, and InputError if one file has more lines
    than the other (never skipped, since all pairs from some line on would be misaligned).
    """
    if Path(source).absolute() == Path(target).absolute():
        warn(f"{source} is both source and target: this trains an autoencoder, not a translation model.")
    rows: list[Row] = []
    bad: list[RowError] = []
    blank: list[RowError] = []  # fully blank pairs are errors only if text follows
    first, second = shown(source), shown(target)
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            if number == 1:
                raise InputError(f"{short} is empty, and {long} is not: each line needs a translation.")
            raise InputError(
                f"{short} ends after line {number - 1:,}, but {long} continues: line {number:,} has no translation. "
                "Line n of one file must be the translation of line n of the other: check for a missing or split line "
                "above it."
            )
        faults = [
            RowError(file, number, None, line.fault or "the line is empty")
            for file, line in ((first, left), (second, right))
            if line.fault or not line.text.strip()
        ]
        if len(faults) == 2 and not (left.fault or right.fault):
            blank += faults
            continue
        bad += [*blank, *faults]
        blank = []
        if not faults:
            rows.append(Row(left.text.strip(), None, right.text.strip(), number, first))
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    if not rows:
        raise InputError(f"{first} and {second} contain no pair of lines.")
    skipped = {one.line: RowError(first, one.line, one.column, one.reason) for one in bad}  # one per pair
    return Table(rows, list(skipped.values()), {"text": "line", "label": "line"})


# -- Reads text-to-text pairs (translation, summarization), and creates summary pairs from a dump of articles --------


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
        return Table(found, facts.bad_rows, {"text": "document", "label": "first line"})
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
    return Table(good, [*table.skipped, *bad], table.columns, groups=table.groups)


def lead_pairs(documents: Iterable[Document]) -> Iterator[Row]:
    """Yields articles with their leads: the first line of a document as target, all following lines as source.

    Encyclopedia articles begin with a summary. A one-line document yields no pair.
    """
    for document in documents:
        lead, *rest = document.sentences
        if rest:
            yield Row("\n".join(rest), None, lead, document.line, document.file)
