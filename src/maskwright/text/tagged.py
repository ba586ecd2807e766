"""Tagged sentences from CoNLL columns and JSON lines, plain or packed, with every bad row reported at once.

In columns a line is a word: its token first and its tag last, or as `--columns token=0,tag=1` says; a blank line ends a
sentence, a line that begins with "# " is a comment, and so is a document's mark, -DOCSTART-. Columns stand apart by
tabs, or by white space where a line has no tab. A line of JSON is a sentence: {"tokens": [...], "tags": [...]}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import InputError, RowError, RowErrors
from .cells import read_text
from .files import Line, file_format, read_lines
from .records import Record, json_kind, read_records
from .words import Span, split_words

ROLES = ("token", "tag")
CONLL_ENDINGS = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes", ".ner", ".pos")
DOCUMENT_MARK = "-DOCSTART-"


@dataclass(frozen=True)
class Sentence:
    """Words with their tags, or without (None).

    spans: start and end character of each word in `text`; line, file: where it begins; lines: that of each word in
    columns, () where all stand on one. As a row of any task it has `label`, its tags as a list.
    """

    words: Sequence[str]
    tags: Sequence[str] | None
    text: str
    spans: Sequence[Span]
    line: int
    file: str
    lines: Sequence[int] = field(default=(), repr=False)
    text_pair: None = None

    @classmethod
    def of_words(
        cls, words: Sequence[str], tags: Sequence[str] | None, line: int, file: str, lines: Sequence[int] = ()
    ) -> Sentence:
        """A sentence given as words: its text is they with a space between."""
        spans, start = [], 0
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return cls(tuple(words), None if tags is None else tuple(tags), " ".join(words), spans, line, file, lines)

    @classmethod
    def of_text(cls, text: str, line: int, file: str) -> Sentence:
        """Plain text, split into words by `words.split_words`."""
        spans = split_words(text)
        return cls(tuple(text[start:end] for start, end in spans), None, text, spans, line, file)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def label(self) -> list[str] | None:
        """The tags."""
        return None if self.tags is None else list(self.tags)

    def line_of(self, word: int) -> int:
        """The physical line of a word."""
        return self.lines[word] if self.lines else self.line


@dataclass(frozen=True)
class TaggedTable:
    """The sentences of a file; skipped: the faults of those that were left out, num_skipped: how many those are."""

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

    columns: "token" and "tag" -> position from 0 (negative from the end) in CoNLL columns, or name in JSON lines;
    need_tags: without it, tags are read where they are there. A sentence with a fault is bad as a whole. Raises
    RowErrors with every fault of the file unless `skip_bad_rows`, InputError where nothing is left to read,
    MissingFileError.
    """
    roles = dict(columns or {})
    for role in roles:
        if role not in ROLES:
            raise InputError(f"There is no column role '{role}' in tagged text: use {', '.join(ROLES)}.")
    kind = file_format(path, default="conll")
    if kind == "csv":
        raise InputError(f"{path} is a table: tagged text is read from CoNLL columns, or .jsonl with tokens and tags.")
    read = _Named(roles, need_tags) if kind in ("jsonl", "parquet") else _Columns(roles, need_tags, str(path))
    faults: list[RowError] = []
    rows: list[Sentence] = []
    num_bad = 0
    for found in read.sentences(path, kind):
        if isinstance(found, Sentence):
            rows.append(found)
        else:
            faults += found
            num_bad += 1
    if faults and not skip_bad_rows:
        raise RowErrors(faults)
    if not rows:
        raise InputError(f"{path} holds no {'good ' if faults else ''}sentences.")
    return TaggedTable(rows, faults, num_bad)


def is_tagged(path: Path | str, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file holds words and not texts: CoNLL columns by its name, or JSON lines with tokens."""
    if set(columns or {}) & set(ROLES):
        return True
    name = Path(path).name.lower()
    if any(name.removesuffix(packing).endswith(CONLL_ENDINGS) for packing in ("", ".gz", ".xz", ".zst")):
        return True
    if not Path(path).is_file() or file_format(path, default="txt") != "jsonl":
        return False
    first = next(read_records(path, "jsonl"), None)
    return first is not None and "tokens" in first.named and "text" not in first.named


Found = Sentence | list[RowError]


class _Columns:
    """CoNLL columns. The first line of words says how many columns there are."""

    def __init__(self, roles: Mapping[str, str], need_tags: bool, file: str) -> None:
        self.token = _position(roles.get("token", "0"))
        self.tag = _position(roles.get("tag", "-1"))
        self.need_tags, self.file, self.width = need_tags, file, 0

    def sentences(self, path: Path | str, kind: str) -> Iterator[Found]:
        """Sentences, or their faults."""
        block: list[Line] = []
        for line in read_lines(path):
            if line.fault is None and (not line.text.strip() or line.text.startswith(DOCUMENT_MARK)):
                yield from self._close(block)
                block = []
            elif not line.text.startswith("# "):
                block.append(line)
        yield from self._close(block)

    def _close(self, block: Sequence[Line]) -> Iterator[Found]:
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
        given = tags if self.width > 1 else None
        lines = [line.number for line in block]
        yield faults or Sentence.of_words(words, given, lines[0], self.file, lines)

    def _read(self, line: Line) -> tuple[str, str, str | None]:
        """Token, tag, and what is wrong."""
        if line.fault is not None:
            return "", "", line.fault
        cells = line.text.split("\t") if "\t" in line.text else line.text.split()
        self.width = self.width or len(cells)
        if self.width == 1 and self.need_tags:
            return "", "", "has one column: a token and its tag are needed"
        if len(cells) != self.width:
            noun = "column" if len(cells) == 1 else "columns"
            return "", "", f"has {len(cells)} {noun}, not {self.width} as the first line"
        most = max(place if place >= 0 else -place - 1 for place in (self.token, self.tag))
        if most >= len(cells):
            raise InputError(
                f"{self.file} has {len(cells)} columns, so none at {most} (counted from 0): see --columns."
            )
        word, tag = cells[self.token].strip(), cells[self.tag].strip()
        if not word:
            return "", "", "the token is empty"
        if not tag:
            return "", "", "the tag is empty"
        return word, tag, read_text(word)[1] or read_text(tag)[1]


class _Named:
    """Sentences as objects with lists of tokens and tags."""

    def __init__(self, roles: Mapping[str, str], need_tags: bool) -> None:
        self.tokens, self.tags = roles.get("token", "tokens"), roles.get("tag", "tags")
        self.need_tags = need_tags

    def sentences(self, path: Path | str, kind: str) -> Iterator[Found]:
        """Sentences, or their faults."""
        for record in read_records(path, kind):
            yield list(record.faults) or self._sentence(record)

    def _sentence(self, record: Record) -> Found:
        words, tags = record.named.get(self.tokens), record.named.get(self.tags)
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
            f"--columns has '{text}'; CoNLL columns are named by position from 0, as in token=0,tag=3."
        ) from None


def as_sentences(rows: Iterable[Any]) -> list[Sentence]:
    """Rows of texts, or sentences, as sentences. Raises InputError for a pair of texts."""
    found = []
    for row in rows:
        if isinstance(row, Sentence):
            found.append(row)
            continue
        if row.text_pair is not None:
            raise InputError(f"{row.file}, line {row.line}: words are tagged in one text, and this is a pair.")
        found.append(Sentence.of_text(row.text, row.line, row.file))
    return found
