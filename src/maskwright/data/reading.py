"""The reading half of a preparation: batches of documents that were not seen before, and where each stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.errors import RowError
from ..text.corpus import CorpusFacts, Document, finish, read_file
from .duplicates import SeenDigests, digest

# So much is tokenised at a time: the tokenizer is slower for larger pieces, whose tokens leave the cache.
BATCH_CHARACTERS = 1 << 19
BATCH_DOCUMENTS = 1 << 13


@dataclass(frozen=True)
class Place:
    """A place in a corpus: before document `document` of file `file`; before: the facts when that file began."""

    file: int
    document: int
    before: CorpusFacts

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"file": self.file, "document": self.document, "before": asdict(self.before)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Place:
        """From `to_dict`."""
        before = dict(values["before"])
        bad_rows = [RowError(**row) for row in before.pop("bad_rows")]
        return cls(values["file"], values["document"], CorpusFacts(**before, bad_rows=bad_rows))


@dataclass
class Batch:
    """Documents to tokenise.

    sentences: of all documents, one after the other; sizes: sentences of each document; digests: of each
    document, end to end (empty where duplicates are kept); text_bytes, duplicates: of each document, its
    UTF-8 size and how many duplicates were dropped just before it; places: behind each document.
    """

    sentences: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


class Reader:
    """Reads a corpus from a place on; seen: knows the documents before it (None: duplicates are kept)."""

    def __init__(self, names: list[str], text_field: str, split_lines: bool, seen: SeenDigests | None) -> None:
        self.names, self.text_field, self.split_lines, self.seen = names, text_field, split_lines, seen
        self.facts = CorpusFacts()
        self.trailing_duplicates = 0
        self.start = Place(0, 0, CorpusFacts())

    def go_to(self, place: dict[str, Any]) -> None:
        """Begin at a place that a shard kept."""
        self.start = Place.from_dict(place)
        self.facts = self.start.before.copy()

    def batches(self) -> Iterator[Batch]:
        """The documents from the start to the end of the corpus, without those seen before."""
        waiting: list[tuple[Document, Place]] = []
        characters = 0
        for document, place in self._documents():
            waiting.append((document, place))
            characters += sum(map(len, document.sentences))
            if characters >= BATCH_CHARACTERS or len(waiting) >= BATCH_DOCUMENTS:
                yield from self._batch(waiting)
                waiting, characters = [], 0
        yield from self._batch(waiting)

    def finish(self, skip_bad_rows: bool) -> None:
        """Raise RowErrors or InputError where the corpus as a whole cannot be used."""
        finish(self.facts, self.names, skip_bad_rows)

    def _documents(self) -> Iterator[tuple[Document, Place]]:
        """Each document with the place behind it; the facts of a file that was begun before are counted anew."""
        for number in range(self.start.file, len(self.names)):
            before = self.facts.copy()
            to_skip = self.start.document if number == self.start.file else 0
            documents = read_file(self.names[number], self.text_field, self.split_lines, self.facts)
            for index, document in enumerate(documents):
                if index >= to_skip:
                    yield document, Place(number, index + 1, before)

    def _batch(self, waiting: list[tuple[Document, Place]]) -> Iterator[Batch]:
        """The batch of the new ones among `waiting`; none if there is none."""
        pairs = [digest(document.sentences) for document, _ in waiting]
        digests = [value for value, _ in pairs]
        fresh = [True] * len(waiting) if self.seen is None else self.seen.add(digests)
        batch = Batch()
        for (document, place), (value, size), is_new in zip(waiting, pairs, fresh, strict=True):
            if not is_new:
                self.trailing_duplicates += 1
                continue
            batch.sentences += document.sentences
            batch.sizes.append(len(document.sentences))
            batch.digests.append(value)
            batch.text_bytes.append(size)
            batch.duplicates.append(self.trailing_duplicates)
            batch.places.append(place)
            self.trailing_duplicates = 0
        if batch.places:
            yield batch
