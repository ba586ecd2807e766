"""Reads tagged sentences from CoNLL columns or JSON lines, plain or compressed, and reports all bad rows at once.

In CoNLL columns each line is a word: the token first and the tag last, or as in `--columns token=0,tag=1`. A blank line
ends a sentence; lines that begin with "# " are comments (not "# O", the token #), and so is -DOCSTART-. Columns are
separated by tabs, or by whitespace in lines without a tab. Where the first column counts the words of each sentence, as
in GermEval 2014 and Universal NER, the token is the second. `conllu` reads the columns of CoNLL-U. A JSON line is a
sentence: {"tokens": [...], "tags": [...]}.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowError, RowErrors
from ..annotations.reader import SPANS, find_annotations, has_annotations, known_formats
from ..formats.cells import read_text
from ..formats.class_names import named_value
from ..formats.columns import classes_in
from ..formats.files import Line, file_format, read_lines
from ..formats.records import Record, json_kind, parquet_columns, read_records
from .conllu import ENDINGS, ConlluReader, conllu_columns
from .reader import Reader
from .sentence import MISSING, Sentence, as_sentences

__all__ = [
    "MISSING",
    "READER",
    "Sentence",
    "TaggedTable",
    "as_sentences",
    "column_facts",
    "is_tagged",
    "read_tagged",
    "tag_column",
]

ROLES = ("token", "tag", "classes")
CONLL_ENDINGS = (".conll", *ENDINGS, ".iob", ".iob2", ".bio", ".bioes", ".ner", ".pos")
DOCUMENT_MARK = "-DOCSTART-"
_SAMPLE_LINES = 2000  # these determine the columns
_ENTITY_TAG = re.compile(r"O|[BIESLUMW]([-_:/|].+)?|.+[-_:/|][BIESLUMW]", re.IGNORECASE)
_UNTAGGED = ("-", "_")


@dataclass(frozen=True)
class TaggedTable:
    """The sentences of a file; skipped: errors of skipped sentences, num_skipped: how many."""

    rows: list[Sentence]
    skipped: list[RowError] = field(default_factory=list)
    num_skipped: int = 0

    def __len__(self) -> int:
        return len(self.rows)


def read_tagged(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    need_tags: bool = True,
    skip_bad_rows: bool = False,
) -> TaggedTable:
    """Read tagged sentences.

    Args:
        path: File to read.
        columns: "token" and "tag" -> position from 0 (negative: from the end) in CoNLL columns, name in JSON lines,
            either in CoNLL-U, where `MISC:NER` is an attribute of MISC.
        need_tags: Every sentence needs tags; otherwise tags are read where present.
        skip_bad_rows: Skip sentences with errors instead of raising RowErrors.

    Raises:
        RowErrors: all errors of the file.
        InputError: no sentences to read.
        MissingFileError: no such file.
    """
    roles = dict(columns or {})
    faults: list[RowError] = []
    rows: list[Sentence] = []
    num_bad = 0
    annotated = None if set(roles) & {"token"} else find_annotations(path, roles)
    if annotated is not None:
        rows = [Sentence(*found) for found in annotated.tagged(faults, need_tags=need_tags)]
        num_bad = len({(fault.file, fault.line) for fault in faults})
        return _table(path, rows, faults, num_bad, skip_bad_rows)
    for role in roles:
        if role not in ROLES:
            raise InputError(f"Unknown column role '{role}' in tagged text: use {', '.join(ROLES)}.")
    kind = file_format(path, default="conll")
    if kind == "csv":
        raise InputError(f"{path} is a table: tagged text is read from CoNLL columns, or .jsonl with tokens and tags.")
    if kind == "jsonl":
        _check_names(path, roles)
    read = _Named(roles, need_tags) if kind in ("jsonl", "parquet") else _Columns(roles, need_tags, str(path))
    for found in read.sentences(path, kind):
        if isinstance(found, Sentence):
            rows.append(found)
        else:
            faults += found
            num_bad += 1
    return _table(path, rows, faults, num_bad, skip_bad_rows)


def _check_names(path: Path | str, roles: Mapping[str, str]) -> None:
    """Raises InputError if the first record of a file has neither tokens nor tags."""
    first = next((record for record in read_records(path, "jsonl") if not record.faults), None)
    names = [roles.get("token", "tokens"), roles.get("tag", "tags")]
    if first is not None and not set(names) & set(first.named):
        listed = ", ".join(map(str, first.named)) or "none"
        raise InputError(
            f"{path} contains records with the fields {listed[:200]}: tagged words are read from {names[0]} and "
            f"{names[1]} (others with --columns token=NAME,tag=NAME), or from the files of annotation tools "
            f"({known_formats()})."
        )


def _table(
    path: Path | str, rows: list[Sentence], faults: list[RowError], num_bad: int, skip_bad_rows: bool
) -> TaggedTable:
    """Returns the sentences of a file. Raises RowErrors unless errors are skipped, InputError without a sentence."""
    if faults and not (skip_bad_rows and rows):
        raise RowErrors(faults, len(rows))
    if not rows:
        raise InputError(f"{path} contains no sentences.")
    return TaggedTable(rows, faults, num_bad)


def is_tagged(path: Path | str, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file contains tagged words: CoNLL columns, JSON lines with tokens, or labeled spans.

    CoNLL columns are known by the name of the file, in .tsv by words that are counted.
    """
    if has_annotations(path, SPANS, columns) or set(columns or {}) & set(ROLES):
        return True
    name = Path(path).name.lower()
    if any(name.removesuffix(packing).endswith(CONLL_ENDINGS) for packing in ("", ".gz", ".xz", ".zst")):
        return True
    if not Path(path).is_file():
        return False
    kind = file_format(path, default="txt")
    if kind == "tsv":
        return _counts_words(path)
    names: Collection[str] = ()
    if kind == "parquet":
        names = parquet_columns(path)
    elif kind == "jsonl":
        first = next(read_records(path, "jsonl"), None)
        names = () if first is None else first.named.keys()
    return "tokens" in names and "text" not in names


Parsed = Sentence | list[RowError]


@dataclass(frozen=True)
class _Layout:
    """Columns of a CoNLL file: places of token and tag, number of columns, and whether the first counts the words."""

    token: int
    tag: int
    width: int
    is_numbered: bool

    def is_comment(self, line: Line, is_first: bool) -> bool:
        """Whether a line is a comment; is_first: it is at the head of a sentence, where `#` and a tab may begin one."""
        if line.text.startswith("# "):
            cells = _cells(line.text)
            return len(cells) != self.width or re.match(r"O$|[BIESLUMW]-", cells[-1]) is None
        is_other = self.is_numbered or len(_cells(line.text)) != self.width > 0
        return is_first and line.text.startswith("#\t") and is_other


def _cells(text: str) -> list[str]:
    return text.split("\t") if "\t" in text else text.split()


def _find_layout(file: str, head: Sequence[Line], roles: Mapping[str, str]) -> _Layout:
    """Returns the columns of a file. head: its first lines. Raises InputError if the tag must be chosen."""
    rows: list[list[str]] = []
    numbers: list[int] = []  # of the words in their sentences
    count = 0
    for line in head:
        if not line.text.strip() or line.text.startswith(DOCUMENT_MARK):
            count = 0
        elif line.fault is None and not (count == 0 and line.text.startswith("#")):
            count += 1
            rows.append(_cells(line.text))
            numbers.append(count)
    width = len(rows[0]) if rows else 0
    whole = [row for row in rows if len(row) == width]
    tagged = [place for place in range(1, width) if _are_entity_tags([row[place] for row in whole])]
    is_numbered = max(numbers, default=0) > 1 and all(
        row[0] == str(number) for row, number in zip(rows, numbers, strict=True)
    )
    is_numbered = is_numbered and not (width == 2 and tagged)  # then it is a token and its tag
    token = _position(roles.get("token", "1" if is_numbered and width > 1 else "0"))
    if "tag" in roles or not is_numbered or token != 1 or width <= 3:
        return _Layout(token, _position(roles.get("tag", "-1")), width, is_numbered)
    # The outer entities of GermEval 2014 are in the column after the word, the inner ones in the last.
    tag = next((place for place in (2, width - 1) if place in tagged), tagged[0] if len(tagged) == 1 else None)
    if tag is None:
        raise InputError(
            f"{file}: the first column counts the words and the second contains them, but none of the other "
            f"{width - 2} contains tags of entities: choose one, as in --columns token=1,tag=2."
        )
    return _Layout(token, tag, width, is_numbered)


def _counts_words(path: Path | str) -> bool:
    """Whether a .tsv file contains sentences with counted words and tags of entities, as GermEval 2014 does."""
    head = list(islice(read_lines(path), _SAMPLE_LINES))
    if all(line.text.strip() for line in head):
        return False  # a table has no blank lines
    try:
        layout = _find_layout(str(path), head, {})
    except InputError:
        return False
    rows = [_cells(line.text) for line in head if line.text.strip() and not line.text.startswith("#")]
    return layout.is_numbered and _are_entity_tags([row[layout.tag] for row in rows if len(row) == layout.width > 2])


def _are_entity_tags(cells: Sequence[str]) -> bool:
    """Whether all cells are tags of entities, or no tag, and not all are no tag."""
    return not set(cells) <= set(_UNTAGGED) and all(cell in _UNTAGGED or _ENTITY_TAG.fullmatch(cell) for cell in cells)


class _Columns:
    """Reader of CoNLL columns. The first word line determines the number of columns, and whether it is CoNLL-U."""

    def __init__(self, roles: Mapping[str, str], need_tags: bool, file: str) -> None:
        self.roles, self.need_tags, self.file, self.width = roles, need_tags, file, 0
        self.document = 0

    def sentences(self, path: Path | str, kind: str) -> Iterator[Parsed]:
        """Yields sentences, or their errors."""
        names, lines = _conllu_lines(path)
        if names is not None:
            yield from ConlluReader(names, self.roles, self.need_tags, self.file).sentences(lines)
            return
        head = list(islice(lines, _SAMPLE_LINES))
        self.layout = _find_layout(self.file, head, self.roles)
        block: list[Line] = []
        for line in chain(head, lines):
            if line.fault is None and (not line.text.strip() or line.text.startswith(DOCUMENT_MARK)):
                yield from self._close(block)
                block = []
                self.document += line.text.startswith(DOCUMENT_MARK)
            elif not self.layout.is_comment(line, not block):
                block.append(line)
        yield from self._close(block)

    def _close(self, block: Sequence[Line]) -> Iterator[Parsed]:
        if not block:
            return
        faults: list[RowError] = []
        words, tags = [], []
        for line in block:
            word, tag, reason = self._read(line)
            if reason is not None:
                faults.append(RowError(self.file, line.number, None, reason))
            words.append(word)
            tags.append(tag)
        given = tags if self._has_tags else None
        lines = [line.number for line in block]
        found = Sentence.of_words(words, given, lines[0], self.file, lines)
        yield faults or (replace(found, document=str(self.document)) if self.document else found)

    @property
    def _has_tags(self) -> bool:
        return self.width > 1 + ("tag" not in self.roles and self.layout.is_numbered)

    def _read(self, line: Line) -> tuple[str, str, str | None]:
        """Returns token, tag and error."""
        if line.fault is not None:
            return "", "", line.fault
        cells = _cells(line.text)
        self.width = self.width or len(cells)
        if not self._has_tags and self.need_tags:
            has = "one column" if self.width == 1 else "a number and a word"
            return "", "", f"has {has}, but a token and its tag are required"
        if len(cells) != self.width:
            noun = "column" if len(cells) == 1 else "columns"
            return "", "", f"has {len(cells)} {noun}, not {self.width} like the first line"
        most = max(place if place >= 0 else -place - 1 for place in (self.layout.token, self.layout.tag))
        if most >= len(cells):
            raise InputError(
                f"{self.file} has {len(cells)} columns, so there is no column {most} (counted from 0): check --columns."
            )
        word, tag = cells[self.layout.token].strip(), cells[self.layout.tag].strip()
        if not word:
            return "", "", "the token is empty"
        if not tag:
            return "", "", "the tag is empty"
        return word, tag, read_text(word)[1] or read_text(tag)[1]


def _conllu_lines(path: Path | str) -> tuple[Sequence[str] | None, Iterator[Line]]:
    """Returns the columns of a CoNLL-U file, None for another, and the lines of the file."""
    lines = read_lines(path)
    head: list[Line] = []
    for line in lines:
        head.append(line)
        if line.text.strip() and not line.text.startswith("#"):
            break
    return conllu_columns(str(path), head), chain(head, lines)


def column_facts(path: Path | str, columns: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the format of a file with columns, and which are read and what is left out; None for other files."""
    if file_format(path, default="conll") not in ("conll", "txt", "tsv"):
        return None
    names, lines = _conllu_lines(path)
    if names is not None:
        return ConlluReader(names, columns, False, str(path)).facts(lines)
    layout = _find_layout(str(path), list(islice(lines, _SAMPLE_LINES)), columns)
    token, tag = (place % layout.width for place in (layout.token, layout.tag))
    return "CoNLL columns", f"tokens are in column {token}, tags in column {tag} (counted from 0)"


def tag_column(path: Path | str, columns: Mapping[str, str]) -> int:
    """Returns the position of the tag in CoNLL columns. Raises InputError for an attribute of MISC or FEATS."""
    names, lines = _conllu_lines(path)
    if names is None:
        return _find_layout(str(path), list(islice(lines, _SAMPLE_LINES)), columns).tag
    tag = ConlluReader(names, columns, False, str(path)).tag
    if tag.attribute:
        raise InputError(f"Tags in an attribute of {tag.column} cannot be changed: choose a column with --columns.")
    return tag.place


class _Named:
    """Reader of JSON objects with lists of tokens and tags."""

    def __init__(self, roles: Mapping[str, str], need_tags: bool) -> None:
        self.tokens, self.tags = roles.get("token", "tokens"), roles.get("tag", "tags")
        self.classes = classes_in(dict(roles))
        self.has_default = "tag" not in roles
        self.need_tags = need_tags

    def sentences(self, path: Path | str, kind: str) -> Iterator[Parsed]:
        """Yields sentences, or their errors."""
        for record in read_records(path, kind):
            yield list(record.faults) or self._sentence(record)

    def _sentence(self, record: Record) -> Parsed:
        if self.has_default and self.tags not in record.named and "ner_tags" in record.named:
            self.tags = "ner_tags"
        words, tags = record.named.get(self.tokens), record.named.get(self.tags)
        if self.classes and isinstance(tags, list):
            tags, reason = named_value(tags, self.classes)
            if reason is not None:
                return [record.fault(self.tags, reason)]
        faults = _faults(record, self.tokens, words, "token")
        if tags is not None or self.need_tags:
            faults += _faults(record, self.tags, tags, "tag")
        if faults or not words:
            return faults
        if tags is not None and len(tags) != len(words):
            return [record.fault(self.tags, f"has {len(tags)} tags for {len(words)} tokens")]
        return Sentence.of_words(words, tags, record.line, record.file)


def _faults(record: Record, name: str, cells: Any, what: str) -> list[RowError]:
    if not isinstance(cells, list) or not cells:
        found = "is missing" if cells is None else "is empty" if cells == [] else f"is {json_kind(cells)}, not a list"
        return [record.fault(name, found)]
    faults = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, str):
            faults.append(record.fault(name, f"{what} {number} is {json_kind(cell)}, not text"))
            if what == "tag" and isinstance(cell, int):
                named = f"tag {number} is a number without a name: name the tags from 0, --columns 'classes=O|B-X|I-X'"
                return [record.fault(name, named)]
        elif not cell.strip():
            faults.append(record.fault(name, f"{what} {number} is empty"))
        elif (reason := read_text(cell)[1]) is not None:
            faults.append(record.fault(name, f"{what} {number}: {reason}"))
    return faults


def _position(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"--columns has '{text}': specify CoNLL columns by position from 0, as in token=0,tag=3; only columns of "
            "CoNLL-U have names."
        ) from None


def _scan(path: Path, columns: Mapping[str, str], faults: list[RowError]) -> Iterator[Sentence]:
    table = read_tagged(path, columns=columns, skip_bad_rows=True)
    faults += table.skipped
    yield from table.rows


READER = Reader(
    "tagged",
    "tagged words",
    "CoNLL columns (token and tag per line, a blank line after each sentence), .jsonl with tokens and tags, or labeled "
    "spans of an annotation tool",
    "test.conll",
    recognizes=is_tagged,
    read=lambda path, columns, skip_bad_rows: read_tagged(
        path, columns=columns, need_tags=False, skip_bad_rows=skip_bad_rows
    ),
    scan=_scan,
    also="texts",
)
