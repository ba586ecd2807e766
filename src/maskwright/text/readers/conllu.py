"""Reads CoNLL-U and CoNLL-U Plus (universaldependencies.org/format.html, ext-format.html) as tagged sentences.

Words are FORM, tags UPOS, or another column by name. Lines of multiword tokens (1-2) and empty nodes (3.1) are no
words; with SpaceAfter=No they give the text and the characters of each word in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from ...core.errors import InputError, RowError
from ...core.util import plural
from ..formats.cells import read_text
from ..formats.files import Line
from ..words import Span
from .sentence import MISSING, Sentence

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
        """Returns the name of the format, and which columns are read and which lines are left out."""
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
            f"words are {names[0]}, tags {names[1]}; {left_out} are left out",
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
