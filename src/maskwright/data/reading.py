"""Reads batches of new documents for a preparation, with their positions in the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.errors import RowError
from ..text.readers.corpus import CorpusFacts, Document, finish, read_file
from .duplicates import SeenDigests, digest

# Characters tokenized at a time: larger texts are slower, because their tokens exceed the CPU cache.
BATCH_CHARACTERS = 1 << 19
BATCH_DOCUMENTS = 1 << 13


@dataclass(frozen=True)
class CorpusPosition:
    """A position in a corpus: before document `document` of `file`; before: the counts at the start of the file."""

    file: int
    document: int
    before: CorpusFacts

    def to_dict(self) -> dict[str, Any]:
        """Converts to plain values."""
        return {"file": self.file, "document": self.document, "before": asdict(self.before)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CorpusPosition:
        """Restores from `to_dict`."""
        before = dict(values["before"])
        bad_rows = [RowError(**row) for row in before.pop("bad_rows")]
        return cls(values["file"], values["document"], CorpusFacts(**before, bad_rows=bad_rows))


@dataclass
class Batch:
    """Documents to tokenize.

    sentences: of all documents, concatenated; sizes: sentences per document; digests: per document, concatenated (empty
    if duplicates are kept); text_bytes, duplicates: per document, its UTF-8 size and the number of duplicates removed
    just before it; places: position after each document.
    """

    sentences: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    places: list[CorpusPosition] = field(default_factory=list)


class Reader:
    """Reads a corpus from a position; seen: digests of the documents before it (None: keep duplicates)."""

    def __init__(self, names: list[str], text_field: str, split_lines: bool, seen: SeenDigests | None) -> None:
        self.names, self.text_field, self.split_lines, self.seen = names, text_field, split_lines, seen
        self.facts = CorpusFacts()
        self.trailing_duplicates = 0
        self.start = CorpusPosition(0, 0, CorpusFacts())

    def go_to(self, place: dict[str, Any]) -> None:
        """Sets the start position from a shard's record."""
        self.start = CorpusPosition.from_dict(place)
        self.facts = self.start.before.copy()

    def batches(self) -> Iterator[Batch]:
        """Yields the documents from the start to the end of the corpus, without duplicates."""
        waiting: list[tuple[Document, CorpusPosition]] = []
        characters = 0
        for document, place in self._documents():
            waiting.append((document, place))
            characters += sum(map(len, document.sentences))
            if characters >= BATCH_CHARACTERS or len(waiting) >= BATCH_DOCUMENTS:
                yield from self._batch(waiting)
                waiting, characters = [], 0
        yield from self._batch(waiting)

    def finish(self, skip_bad_rows: bool) -> None:
        """Raises RowErrors or InputError if the corpus as a whole is invalid."""
        finish(self.facts, self.names, skip_bad_rows)

    def _documents(self) -> Iterator[tuple[Document, CorpusPosition]]:
        """Yields each document with the position after it; the counts of a partly read file restart at 0."""
        for number in range(self.start.file, len(self.names)):
            before = self.facts.copy()
            to_skip = self.start.document if number == self.start.file else 0
            documents = read_file(self.names[number], self.text_field, self.split_lines, self.facts)
            for index, document in enumerate(documents):
                if index >= to_skip:
                    yield document, CorpusPosition(number, index + 1, before)

    def _batch(self, waiting: list[tuple[Document, CorpusPosition]]) -> Iterator[Batch]:
        """Yields the batch of new documents in `waiting`, if any."""
        found = Batch()
        for document, place in waiting:
            value, size = digest(document.sentences)
            found.sentences += document.sentences
            found.sizes.append(len(document.sentences))
            found.digests.append(value)
            found.text_bytes.append(size)
            found.places.append(place)
        batch, _ = self.only_new(found)
        if batch.places:
            yield batch

    def only_new(self, found: Batch) -> tuple[Batch, list[bool]]:
        """Removes duplicates from consecutive documents. Returns the others, and for each document whether it is new.

        found: without `duplicates`; it may have no `sentences`, if they are tokenized already.
        """
        fresh = [True] * len(found.sizes) if self.seen is None else self.seen.add(found.digests)
        batch = Batch()
        first = 0
        for index, (is_new, size) in enumerate(zip(fresh, found.sizes, strict=True)):
            if is_new:
                batch.sentences += found.sentences[first : first + size]
                batch.sizes.append(size)
                batch.digests.append(found.digests[index])
                batch.text_bytes.append(found.text_bytes[index])
                batch.duplicates.append(self.trailing_duplicates)
                batch.places.append(found.places[index])
            self.trailing_duplicates = 0 if is_new else self.trailing_duplicates + 1
            first += size
        return batch, fresh
