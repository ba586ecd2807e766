"""Reads tagged sentences from CoNLL columns, CoNLL-U, JSON lines or annotation files, and reports all bad rows at once.

CoNLL columns have a token and its tag per line, and a blank line after each sentence. Of CoNLL-U and CoNLL-U Plus
(universaldependencies.org/format.html, ext-format.html) the words are FORM and the tags UPOS, or another column by
name; lines of multiword tokens (1-2) and empty nodes (3.1) are no words, but with SpaceAfter=No they give the text and
the characters of each word in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowError
from ...core.util import plural
from ..annotations.reader import SPANS, find_annotations, has_annotations, known_formats
from ..formats.cells import classes_in, read_text
from ..formats.files import Line, file_format, read_lines
from ..formats.records import Record, first_names, json_kind, named_value, read_records
from ..words import MISSING, Sentence, Span
from .tables import FoundRows, Reader, check_rows

# -- CoNLL-U ------------------------------------------------------------------------------------------------

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ENDINGS = (".conllu", ".conllup")
UNSPECIFIED = "_"
_ATTRIBUTES = ("FEATS", "MISC")  # columns of Name=Value|Name=Value
_ID = re.compile(r"([1-9]\d*)|([1-9]\d*)-([1-9]\d*)|(?:0|[1-9]\d*)\.[1-9]\d*")
_FIRST_ID = re.compile(r"1|1-\d+|0\.1")
_GLOBAL = re.compile(r"#\s*global\.columns\s*=\s*(.*)")
_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc(?:\s+id)?|doc(?:ument)?(?:[ _]id)?)\s*(?:=\s*(.*?)\s*)?$")


def conllu_columns(path: str, head: Sequence[Line]) -> tuple[str, ...] | None:
    """Returns the names of the columns if a file is CoNLL-U or CoNLL-U Plus, else None.

    head: its lines up to the first word. A file with another name is CoNLL-U if that line has its ten columns and ID.
    """
    if head and (found := _GLOBAL.match(head[0].text)):
        return tuple(found[1].split())
    bare = re.sub(r"\.(gz|xz|zst)$", "", path.lower())
    cells = head[-1].text.split("\t") if head else []
    looks_so = len(cells) == len(CONLLU) and _FIRST_ID.fullmatch(cells[0]) and re.fullmatch(r"\d+|_", cells[6])
    return CONLLU if bare.endswith(ENDINGS) or looks_so else None


@dataclass(frozen=True)
class _Cell:
    """A column of a line, or an attribute in one: `MISC:NER` is the value of NER=... in MISC."""

    place: int
    column: str = ""
    attribute: str = ""

    def read(self, cells: Sequence[str], seen: set[str]) -> str:
        """Returns the value; MISSING for `_` where it means that nothing is specified.

        seen: collects the attributes of the column. A word without the attribute is outside ("O"; in FEATS "_").
        """
        value = cells[self.place].strip()
        if self.attribute:
            pairs = dict(part.partition("=")[::2] for part in value.split("|") if part != UNSPECIFIED)
            seen.update(pairs)
            return pairs.get(self.attribute) or (UNSPECIFIED if self.column == "FEATS" else "O")
        return MISSING if value == UNSPECIFIED and self.column not in _ATTRIBUTES else value


class ConlluReader:
    """Reads the blocks of lines of a CoNLL-U file. names: its columns; roles: "token" and "tag" -> column."""

    def __init__(self, names: Sequence[str], roles: Mapping[str, str], need_tags: bool, file: str) -> None:
        self.names, self.need_tags, self.file = names, need_tags, file
        if not names:
            raise InputError(f"{file}, line 1: '# global.columns =' names no column.")
        self.id = names.index("ID") if "ID" in names else None
        self.misc = names.index("MISC") if "MISC" in names else None
        self.token = self._find(roles.get("token", "FORM"))
        self.form = names.index("FORM") if "FORM" in names else self.token.place
        default = "UPOS" if "UPOS" in names else names[-1]
        self.tag = self._find(roles.get("tag", default))
        self.document: str | None = None
        self.num_documents = 0
        self.seen: set[str] = set()

    def _find(self, name: str) -> _Cell:
        """Returns the column of this name or position. Raises InputError if there is none."""
        known = {column.casefold(): place for place, column in enumerate(self.names)}
        if name.casefold() in known:
            place = known[name.casefold()]
            return _Cell(place, self.names[place])
        if re.fullmatch(r"-?\d+", name) and -len(self.names) <= int(name) < len(self.names):
            return _Cell(int(name), self.names[int(name)])
        column, _, attribute = name.partition(":")
        if attribute and column.upper() in _ATTRIBUTES and column.casefold() in known:
            return _Cell(known[column.casefold()], column.upper(), attribute)
        raise InputError(
            f"{self.file} has no column '{name}': its columns are {', '.join(self.names)}; an attribute of MISC or "
            "FEATS is named as in --columns tag=MISC:NER."
        )

    def sentences(self, lines: Iterable[Line]) -> Iterator[Sentence | list[RowError]]:
        """Yields sentences, or their errors."""
        comments: dict[str, str] = {}
        block: list[Line] = []
        num_found = num_tagged = 0
        for line in chain(lines, [Line(0, "", None)]):
            if line.fault is None and line.text.startswith("#"):
                self._note(line.text, comments)
            elif line.fault is not None or line.text.strip():
                block.append(line)
            elif block:
                found = self._sentence(block, comments)
                num_found += 1
                num_tagged += isinstance(found, list) or any(found.tags or ())
                yield found
                block, comments = [], {}
        if self.need_tags and num_found:
            self._check_tags(num_tagged)

    def facts(self, lines: Iterable[Line]) -> tuple[str, str]:
        """Returns the name of the format, and which columns are read and which lines are skipped."""
        ids = [] if self.id is None else [line.text.split("\t") for line in lines if not line.text.startswith("#")]
        found = [_ID.fullmatch(cells[self.id]) for cells in ids if self.id is not None and len(cells) > self.id]
        ranges = sum(id is not None and id[2] is not None for id in found)
        empty = sum(id is not None and "." in id[0] for id in found)
        names = [
            f"{cell.column}:{cell.attribute}" if cell.attribute else cell.column for cell in (self.token, self.tag)
        ]
        left_out = f"{plural(ranges, 'range')} of multiword tokens and {plural(empty, 'empty node')}"
        return (
            "CoNLL-U" if self.names == CONLLU else "CoNLL-U Plus",
            f"words are {names[0]}, tags {names[1]}; {left_out} are skipped",
        )

    def _check_tags(self, num_tagged: int) -> None:
        """Raises InputError for a column or an attribute without any value."""
        name = self.tag.column or f"column {self.tag.place}"
        if self.tag.attribute and self.tag.attribute not in self.seen:
            others = f"its attributes are {', '.join(sorted(self.seen)[:20])}" if self.seen else "it has no attributes"
            raise InputError(f"{self.file} has no attribute '{self.tag.attribute}' in {name}: {others}.")
        if not num_tagged:
            raise InputError(
                f"{self.file} has no tags: {name} is '_' in every line. Choose another column, as in --columns "
                "tag=XPOS."
            )

    def _note(self, text: str, comments: dict[str, str]) -> None:
        """Keeps a comment about the sentence or the document."""
        found = _COMMENT.match(text)
        if found is None:
            return
        if found[1] in ("text", "sent_id"):
            comments.setdefault(found[1], found[2] or "")
        else:
            self.num_documents += 1
            self.document = found[2] or str(self.num_documents)

    def _sentence(self, block: Sequence[Line], comments: Mapping[str, str]) -> Sentence | list[RowError]:
        faults: list[RowError] = []
        words: list[str] = []
        forms: list[str] = []
        tags: list[str] = []
        lines: list[int] = []
        tokens: list[_Token] = []
        last_of_range = 0
        for line in block:
            cells = line.text.split("\t")
            if (reason := line.fault or self._layout_fault(cells, len(words) + 1, last_of_range)) is not None:
                return [*faults, RowError(self.file, line.number, None, reason)]  # the rest cannot be counted
            if (reason := self._cell_fault(cells)) is not None:
                faults.append(RowError(self.file, line.number, None, reason))
            id = _ID.fullmatch(cells[self.id]) if self.id is not None else None
            if self.id is not None and (id is None or "." in id[0]):
                continue
            has_space = self.misc is None or "SpaceAfter=No" not in cells[self.misc].split("|")
            form = cells[self.form]
            if id is not None and id[2]:
                tokens.append(_Token(form, int(id[3]) - int(id[2]) + 1, has_space))
                last_of_range = int(id[3])
                continue
            words.append(self.token.read(cells, set()) or UNSPECIFIED)  # a form may be an underscore
            forms.append(form)
            tags.append(self.tag.read(cells, self.seen))
            lines.append(line.number)
            if len(words) > last_of_range:
                tokens.append(_Token(form, 1, has_space))
        if last_of_range > len(words) and not faults:
            reason = f"the multiword token ends at {last_of_range}, but the sentence has {len(words)} words"
            faults.append(RowError(self.file, block[0].number, None, reason))
        if not words and not faults:
            faults.append(RowError(self.file, block[0].number, None, "the sentence has no words"))
        if faults:
            return faults
        given = tags if self.need_tags or any(tags) else None
        found = Sentence.of_words(words, given, lines[0], self.file, lines)
        text, spans = _characters(forms, tokens, comments.get("text"))
        return replace(found, text=text, spans=spans, id=comments.get("sent_id"), document=self.document)

    def _layout_fault(self, cells: Sequence[str], wanted: int, last_of_range: int) -> str | None:
        """Returns why the columns or the ID of a line are invalid where the word `wanted` is expected, else None."""
        if len(cells) != len(self.names):
            what = f"the {len(self.names)} of CoNLL-U" if self.names == CONLLU else f"{len(self.names)} as declared"
            how = " separated by tabs" if len(cells) == 1 else ""
            return f"has {len(cells)} {'column' if len(cells) == 1 else 'columns'}, not {what}{how}"
        return None if self.id is None else _id_fault(cells[self.id], wanted, last_of_range)

    def _cell_fault(self, cells: Sequence[str]) -> str | None:
        """Returns why a word or a tag is invalid, None if both are valid."""
        for cell in (self.token, self.tag):
            if not cells[cell.place].strip():
                return f"{self.names[cell.place]} is empty: use '_' for what is not specified"
            if (reason := read_text(cells[cell.place])[1]) is not None:
                return f"{self.names[cell.place]}: {reason}"
        return None


def _id_fault(id: str, wanted: int, last_of_range: int) -> str | None:
    """Returns why the ID of a line is invalid where the word `wanted` is expected, None if it is valid."""
    found = _ID.fullmatch(id)
    if found is None:
        return f"the ID '{id}' is not a number, a range (1-2) or an empty node (1.1)"
    first = found[1] or found[2]
    if first == "1" and wanted > 1:
        return f"the ID is {id} where {wanted} is expected: a blank line before the sentence is missing"
    if first and int(first) != wanted:
        return f"the ID is {id} where {wanted} is expected: a line is missing, or is there twice"
    if found[2] and (int(found[3]) <= int(found[2]) or int(found[2]) <= last_of_range):
        return f"the range {id} is empty, or overlaps another"
    return None


@dataclass(frozen=True)
class _Token:
    """A token of the text: a word, or a multiword token of `num_words` words; whether a space follows."""

    form: str
    num_words: int
    has_space: bool


def _characters(forms: Sequence[str], tokens: Sequence[_Token], text: str | None) -> tuple[str, list[Span]]:
    """Returns the text, and the characters of each word in it.

    text: the comment `# text`; without it, or if it does not consist of the tokens, they are joined. Words of a
    multiword token have their own characters if they spell it ("can" "not"), else those of the whole token.
    """
    places = None if text is None else _find_tokens(text, tokens)
    if text is None or places is None:
        text = "".join(token.form + " " * token.has_space for token in tokens).rstrip()
        places = _find_tokens(text, tokens)
        assert places is not None, "tokens are in the text that is made of them"
    spans: list[Span] = []
    for token, (start, end) in zip(tokens, places, strict=True):
        own = forms[len(spans) : len(spans) + token.num_words]
        is_spelled = "".join(own) == text[start:end]
        ends = list(accumulate(map(len, own), initial=start))
        spans += pairwise(ends) if is_spelled else [(start, end)] * len(own)
    return text, spans


def _find_tokens(text: str, tokens: Sequence[_Token]) -> list[Span] | None:
    """Returns the characters of the tokens, which cover everything but whitespace; None if they do not."""
    found, start = [], 0
    for token in tokens:
        while not text.startswith(token.form, start):
            if start >= len(text) or not text[start].isspace():
                return None
            start += 1
        found.append((start, start + len(token.form)))
        start += len(token.form)
    return None if text[start:].strip() else found


# -- any file with tagged words ------------------------------------------------------------------------------

ROLES = ("token", "tag", "classes")
CONLL_ENDINGS = (".conll", *ENDINGS, ".iob", ".iob2", ".bio", ".bioes", ".ner", ".pos")
DOCUMENT_MARK = "-DOCSTART-"
_SAMPLE_LINES = 2000  # these determine the columns
_ENTITY_TAG = re.compile(r"O|[BIESLUMW]([-_:/|].+)?|.+[-_:/|][BIESLUMW]", re.IGNORECASE)
_UNTAGGED = ("-", "_")


@dataclass(frozen=True)
class TaggedTable(FoundRows):
    """The sentences of a file; skipped: errors of skipped sentences, bad: how many."""

    bad: int = 0

    @property
    def num_skipped(self) -> int:
        """Number of skipped sentences (a sentence may have errors in several lines)."""
        return self.bad


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
        rows = list(annotated.tagged(faults, need_tags=need_tags))
        check_rows(path, rows, faults, skip_bad_rows, "sentences")
        return TaggedTable(rows, faults, len({(fault.file, fault.line) for fault in faults}))
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
    check_rows(path, rows, faults, skip_bad_rows, "sentences")
    return TaggedTable(rows, faults, num_bad)


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
    names = first_names(path, kind) if kind in ("parquet", "jsonl") else []
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
    """Returns the format of a file with columns, and which are read and what is skipped; None for other files."""
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


READER = Reader(
    "tagged",
    "tagged words",
    "CoNLL columns (token and tag per line, a blank line after each sentence), .jsonl with tokens and tags, or labeled "
    "spans of an annotation tool",
    "test.conll",
    recognizes=is_tagged,
    read=lambda path, columns, skip_bad_rows, labeled: read_tagged(
        path, columns=columns, need_tags=labeled, skip_bad_rows=skip_bad_rows
    ),
    also="texts",
)
