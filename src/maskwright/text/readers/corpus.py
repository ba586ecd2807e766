"""Streams a corpus as documents, each a tuple of sentences, with memory use independent of corpus size.

In `.txt` a blank line ends a document, and each line is a sentence (or a paragraph, split on request). In `.jsonl`,
`.parquet`, `.csv`, `.tsv` and `hub:` data sets each row is a document, whose text field is split into sentences.
Invalid rows are collected and raised together at the end, or skipped and counted. Two limits bound memory: longer
sentences are split at a space, longer documents are closed; both are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError, RowErrors
from ...core.progress import note, warn
from ...core.util import plural
from ..formats.cells import read_text
from ..formats.files import HUB, STDIN, Line, Meter, expand, file_format, read_lines, read_source_lines
from ..formats.records import Dialect, header_of, name_cells, read_records
from ..words import sentence_spans, split_sentences

Tokenizer = Any  # text.tokenizers.tokenizer.Tokenizer, which is trained on what is read here


FOLDER_FORMATS = ("txt", "jsonl", "parquet", "csv")
MAX_SENTENCE_CHARACTERS = 100_000
MAX_DOCUMENT_CHARACTERS = 4 << 20
MAX_ROWS_KEPT = 10_000

Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its non-empty sentences, and the file and line (or row) where it begins."""

    sentences: tuple[str, ...]
    file: str
    line: int


@dataclass
class CorpusFacts:
    """Statistics of a corpus.

    file_bytes: size on disk, compressed or not; cut_sentences, cut_documents: number that exceeded the limit;
    bad_rows: errors of the first `MAX_ROWS_KEPT` of `skipped_rows`.
    """

    files: int = 0
    file_bytes: int = 0
    documents: int = 0
    sentences: int = 0
    characters: int = 0
    skipped_rows: int = 0
    cut_sentences: int = 0
    cut_documents: int = 0
    bad_rows: list[RowError] = field(default_factory=list, repr=False)

    def counts(self) -> dict[str, int]:
        """Returns the counts, without the list of bad rows."""
        return {name: value for name, value in asdict(self).items() if name != "bad_rows"}

    def copy(self) -> CorpusFacts:
        """Returns a snapshot."""
        return replace(self, bad_rows=list(self.bad_rows))

    def add_bad(self, errors: Iterable[RowError]) -> None:
        """Count one bad row, and keep its errors up to the limit."""
        self.skipped_rows += 1
        self.bad_rows += list(errors)[: max(0, MAX_ROWS_KEPT - len(self.bad_rows))]


def read_documents(
    source: Source,
    *,
    text_field: str = "text",
    split_lines: bool = False,
    skip_bad_rows: bool = False,
    facts: CorpusFacts | None = None,
) -> Iterator[Document]:
    """Stream the documents of a corpus in order.

    Args:
        source: File, folder, glob pattern, `-`, `hub:NAME[/CONFIG]`, or a list of these.
        text_field: Text column of tables.
        split_lines: Split the lines of `.txt` into sentences.
        facts: Updated while reading.

    Raises:
        InputError, MissingFileError, MissingExtraError: at once, for a source that cannot be read.
        RowErrors: at the end of the stream, for all bad rows, unless skip_bad_rows.
        InputError: at the end of the stream, if there was no document.
    """
    facts = CorpusFacts() if facts is None else facts
    names = corpus_files(source)
    return _stream(names, text_field, split_lines, skip_bad_rows, facts)


def read_whole(source: Source, *, skip_bad_rows: bool = False) -> list[Document]:
    """Returns all documents of a corpus, and logs the number of skipped rows. Raises as `read_documents`."""
    facts = CorpusFacts()
    documents = list(read_documents(source, skip_bad_rows=skip_bad_rows, facts=facts))
    if facts.skipped_rows:
        warn(f"{plural(facts.skipped_rows, 'bad row was', 'bad rows were')} skipped.")
    return documents


def corpus_files(source: Source) -> list[str]:
    """Returns the files of a corpus in reading order."""
    names = expand(source, FOLDER_FORMATS)
    for name in names:
        if name != STDIN and not name.startswith(HUB):
            file_format(name, default="txt")
    return names


def read_file(name: str, text_field: str, split_lines: bool, facts: CorpusFacts) -> Iterator[Document]:
    """Yields the documents of one corpus file; bad rows are added to `facts` and skipped."""
    facts.files += 1
    kind = "txt" if name == STDIN else "hub" if name.startswith(HUB) else file_format(name, default="txt")
    before = facts.file_bytes

    def meter(position: int) -> None:
        facts.file_bytes = before + position

    if kind == "txt":
        documents = _read_plain(name, read_lines(name, meter), split_lines, facts)
    else:
        documents = _read_rows(name, kind, text_field, facts, meter)
    for document in documents:
        facts.documents += 1
        facts.sentences += len(document.sentences)
        facts.characters += sum(map(len, document.sentences))
        yield document
    facts.file_bytes = before + file_size(name)


def file_size(name: str) -> int:
    """Returns the size of a corpus file in bytes; 0 for standard input and `hub:` data sets, where it is unknown."""
    return 0 if name == STDIN or name.startswith(HUB) else Path(name).stat().st_size


def finish(facts: CorpusFacts, names: Sequence[str], skip_bad_rows: bool) -> None:
    """Finish a pass: raise RowErrors or InputError if the corpus cannot be used."""
    if facts.bad_rows and not skip_bad_rows:
        raise RowErrors(facts.bad_rows)
    if facts.documents == 0:
        good = "valid " if facts.skipped_rows else ""
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise InputError(f"The corpus ({shown}) contains no {good}text.")


def _stream(
    names: list[str], text_field: str, split_lines: bool, skip_bad_rows: bool, facts: CorpusFacts
) -> Iterator[Document]:
    for name in names:
        yield from read_file(name, text_field, split_lines, facts)
    finish(facts, names, skip_bad_rows)


# -- plain text --------------------------------------------------------------------------------------------


def _read_plain(name: str, lines: Iterator[Line], split_lines: bool, facts: CorpusFacts) -> Iterator[Document]:
    shown = "standard input" if name == STDIN else name
    builder = _Builder(shown, facts)
    for line in lines:
        if line.fault:
            facts.add_bad([RowError(shown, line.number, None, line.fault)])
            continue
        text = line.text.strip()
        if not text:
            yield from builder.close()
        else:
            yield from builder.add(split_sentences(text) if split_lines else [text], line.number)
    yield from builder.close()


class _Builder:
    """Collects sentences into documents within the limits."""

    def __init__(self, file: str, facts: CorpusFacts) -> None:
        self.file, self.facts = file, facts
        self.sentences: list[str] = []
        self.line = self.size = 0

    def add(self, sentences: Iterable[str], line: int) -> Iterator[Document]:
        """Add sentences that begin on `line`; yields each document that reaches the limit."""
        for sentence in sentences:
            for piece in _cut(sentence, self.facts):
                if self.size + len(piece) > MAX_DOCUMENT_CHARACTERS:
                    self.facts.cut_documents += 1
                    yield from self.close()
                if not self.sentences:
                    self.line = line
                self.sentences.append(piece)
                self.size += len(piece)

    def close(self) -> Iterator[Document]:
        """Yields the current document if it is not empty."""
        if self.sentences:
            yield Document(tuple(self.sentences), self.file, self.line)
        self.sentences, self.size = [], 0


def _cut(sentence: str, facts: CorpusFacts) -> Iterator[str]:
    """Yields parts of at most `MAX_SENTENCE_CHARACTERS`, split at the last space if there is one."""
    if len(sentence) <= MAX_SENTENCE_CHARACTERS:
        yield sentence
        return
    facts.cut_sentences += 1
    start = 0
    while start < len(sentence):
        end = start + MAX_SENTENCE_CHARACTERS
        if end < len(sentence):
            space = sentence.rfind(" ", start + 1, end + 1)
            end = space if space > start else end
        piece = sentence[start:end].strip()
        if piece:
            yield piece
        start = end


# -- texts of a data set through the `datasets` library: hub:NAME[/CONFIG] or hub:OWNER/NAME[/CONFIG] -------------


def hub_rows(name: str, text_field: str) -> Iterator[Any]:
    """Yields the field `text_field` of every row of the training split; code of a data set is never run.

    Two components are tried as OWNER/NAME first, then as NAME/CONFIG. Raises MissingExtraError or InputError if it is
    not available.
    """
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("Reading hub: data sets", "data") from None
    parts = name.removeprefix(HUB).split("/")
    if not all(parts) or len(parts) > 3:
        raise InputError(f"'{name}' is not a data set name: use hub:NAME[/CONFIG] or hub:OWNER/NAME[/CONFIG].")
    candidates = [("/".join(parts[:2]), parts[2] if parts[2:] else None)]
    candidates += [(parts[0], parts[1])] if len(parts) == 2 else []
    # Before version 4 the library could run a data set's own code.
    settings = {"trust_remote_code": False} if int(datasets.__version__.split(".")[0]) < 4 else {}
    try:
        for repository, config in candidates:
            try:
                rows = datasets.load_dataset(repository, config, split="train", streaming=True, **settings)
                break
            except FileNotFoundError:  # also DatasetNotFoundError
                if (repository, config) == candidates[-1]:
                    raise
        for row in rows:
            if text_field not in row:
                raise InputError(f"{name} has no column '{text_field}': the columns are {', '.join(row)}.")
            yield row[text_field]
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # any error of the library, its readers or the network
        reason = str(error).strip().split("\n", 1)[0].rstrip(".") or type(error).__name__
        raise InputError(f"{name} cannot be read ({reason}): check the name and the connection.") from error


# -- tables ------------------------------------------------------------------------------------------------


def row_texts(
    name: str, kind: str, text_field: str, facts: CorpusFacts, meter: Meter = lambda position: None
) -> Iterator[tuple[int, str]]:
    """Yields line (row) and text of each valid row of a table; bad rows are added to `facts` and skipped."""
    for line, value, faults in _texts(name, kind, text_field, meter):
        text, reason = read_text(value) if not faults else (None, None)
        if faults or reason is not None:
            facts.add_bad(faults or [RowError(name, line, text_field, reason or "")])
        else:
            yield line, text or ""


def _read_rows(name: str, kind: str, text_field: str, facts: CorpusFacts, meter: Meter) -> Iterator[Document]:
    builder = _Builder(name, facts)
    for line, text in row_texts(name, kind, text_field, facts, meter):
        yield from builder.add(split_sentences(text), line)
        yield from builder.close()


def _texts(name: str, kind: str, text_field: str, meter: Meter) -> Iterator[tuple[int, Any, list[RowError]]]:
    """Yields line, text cell and errors of each row."""
    if kind == "hub":
        for row, value in enumerate(hub_rows(name, text_field), start=1):
            yield row, value, []
        return
    dialect = Dialect()
    records = read_records(name, kind, [text_field], meter, dialect)
    if kind in ("csv", "tsv"):
        first = list(islice(records, 1))
        header = header_of(name, chain(first, records)) if first else []
        if first and header.count(text_field) != 1:
            problem = "no column" if text_field not in header else "more than one column"
            shown = ", ".join(f"'{cell[:40]}'" for cell in header[:20])
            raise InputError(
                f"{name} has {problem} '{text_field}': the columns are {shown}. Rename the text column to "
                f"'{text_field}', or name it where the command has --columns."
            )
        records = name_cells(records, header)
    for record in records:
        yield record.line, record.named.get(text_field), list(record.faults)
    for remark in dialect.remarks:
        note(remark)


# -- passages: paragraphs, and windows of sentences for longer ones -----------------------------------------
#
# A paragraph is a block between blank lines of a `.txt`, or the text of a table row. A paragraph of at most
# `max_tokens` tokens is one passage; a longer one is split into groups of consecutive sentences; an even longer
# sentence is split between words. Only whitespace is lost. Memory use is one paragraph (.txt: at most MAX_PARAGRAPH
# characters; tables: one row).

Span = tuple[int, int]
MAX_PARAGRAPH = 1 << 16  # characters


@dataclass(frozen=True, slots=True)
class Passage:
    """text: as in the source; line: where it begins (tables: the row); start, end: character range in the file's text,
    including line ends and byte order mark, or in the text of the row.
    """

    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """text: of the source; lines: start and number of each of its lines; start: offset in the source."""

    text: str
    start: int
    lines: tuple[Span, ...]


def read_passages(name: str, tokenizer: Tokenizer, max_tokens: int, *, text_field: str = "text") -> Iterator[Passage]:
    """Yields the passages of one file in order, with at most `max_tokens` tokens each (without special tokens).

    text_field: text column of tables. Bad lines and rows are skipped; see `bad_rows_of`.
    """
    for paragraph in _paragraphs(name, text_field, CorpusFacts()):
        yield from _passages(paragraph, tokenizer, max_tokens)


def bad_rows_of(name: str, text_field: str = "text") -> list[RowError]:
    """Returns the errors of unreadable lines or rows of a file."""
    facts = CorpusFacts()
    for _ in _paragraphs(name, text_field, facts):
        pass
    return facts.bad_rows


def _paragraphs(name: str, text_field: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    kind = file_format(name, default="txt")
    return _plain(name, facts) if kind == "txt" else _rows(name, kind, text_field, facts)


def _passages(paragraph: _Paragraph, tokenizer: Tokenizer, max_tokens: int) -> Iterator[Passage]:
    for start, end in cut(paragraph.text, tokenizer, max_tokens):
        line = next(number for place, number in reversed(paragraph.lines) if place <= start)
        yield Passage(paragraph.text[start:end], line, paragraph.start + start, paragraph.start + end)


def cut(text: str, tokenizer: Tokenizer, max_tokens: int) -> list[Span]:
    """Returns spans of `text` of at most `max_tokens` tokens, in order, with as many whole sentences as fit."""
    pieces: list[tuple[Span, int]] = []
    spans = sentence_spans(text)
    sentences = [text[start:end] for start, end in spans]
    for (start, end), encoding in zip(spans, tokenizer.encode_batch(sentences, add_special_tokens=False), strict=True):
        offsets = encoding.offsets
        if len(offsets) <= max_tokens:
            pieces.append(((start, end), len(offsets)))
            continue
        firsts = [offsets[place][0] for place in _split_points(encoding.word_ids, max_tokens)]
        for first, last in pairwise([0, *firsts[1:], end - start]):
            own = _strip_span(text, start + first, start + last)
            if own[0] < own[1]:
                pieces.append((own, max_tokens))
    return _merge_spans(pieces, max_tokens)


def _split_points(word_ids: Sequence[int | None], max_tokens: int) -> list[int]:
    """Returns the tokens at which spans of at most `max_tokens` begin: at word starts unless one word is longer."""
    cuts = [0]
    while len(word_ids) - cuts[-1] > max_tokens:
        place = limit = cuts[-1] + max_tokens
        while place > cuts[-1] and word_ids[place] == word_ids[place - 1]:
            place -= 1
        cuts.append(place if place > cuts[-1] else limit)
    return cuts


def _merge_spans(pieces: list[tuple[Span, int]], max_tokens: int) -> list[Span]:
    """Merges adjacent spans as long as they fit."""
    joined: list[Span] = []
    tokens = 0
    for (start, end), count in pieces:
        if joined and tokens + count <= max_tokens:
            joined[-1] = (joined[-1][0], end)
            tokens += count
        else:
            joined.append((start, end))
            tokens = count
    return joined


def _strip_span(text: str, start: int, end: int) -> Span:
    """Returns the span without surrounding whitespace."""
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, start + len(piece.rstrip()))


def _plain(name: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    """Yields blocks between blank lines, with their line ends."""
    parts: list[str] = []
    lines: list[Span] = []
    begin = place = size = 0
    for number, source, fault in read_source_lines(name):
        mark = number == 1 and source.startswith("\ufeff")  # counted, but not part of a passage
        raw = source[1:] if mark else source
        place += mark
        is_blank = not raw.strip()
        if fault:
            facts.add_bad([RowError(name, number, None, fault)])
        if parts and (is_blank or fault or size + len(raw) > MAX_PARAGRAPH):
            yield _Paragraph("".join(parts), begin, tuple(lines))
            parts, lines, size = [], [], 0
        if not is_blank and not fault:
            if not parts:
                begin = place
            lines.append((size, number))
            parts.append(raw)
            size += len(raw)
        place += len(raw)
    if parts:
        yield _Paragraph("".join(parts), begin, tuple(lines))


def _rows(name: str, kind: str, text_field: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    """Yields the text of each row of a table."""
    for line, text in row_texts(name, kind, text_field, facts):
        yield _Paragraph(text, 0, ((0, line),))
