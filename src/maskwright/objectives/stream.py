"""The endless, resumable stream of training examples from token shards.

An epoch visits all documents in random order (window by window if the shards are in an object store), in sections of
some million tokens; a section is planned when it is reached, and its examples are shuffled. Memory does not grow with
the corpus, sources are mixed, and a position in the stream is three integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch, Deal
from .segments import Example, sentence_bounds

SECTION_TOKENS = 1 << 23

Planner = Callable[[dict[int, list[int]], np.random.Generator], list[Example]]


class Tokens(Protocol):
    """Source of the tokens of documents (data.shards.TokenShards)."""

    def document_tokens(self, document: int) -> np.ndarray: ...


class Documents(Tokens, Protocol):
    """The token shard methods used by the stream (data.shards.TokenShards)."""

    def sentence_lengths_of(self, document: int) -> np.ndarray: ...

    def document_lengths(self) -> np.ndarray: ...


Packer = Callable[[Tokens, Sequence[Example], np.random.Generator], Batch]


@dataclass
class Position:
    """The next example: number `example` of section `section` of epoch `epoch`."""

    epoch: int = 0
    section: int = 0
    example: int = 0


class ExampleStream:
    """Endless examples.

    documents: the shards; chosen: int64 [documents], the documents to use (others may be held out); plan: plans
    examples from sentence bounds by document; seed: random seed of the order.
    """

    def __init__(
        self,
        documents: Documents,
        chosen: np.ndarray,
        plan: Planner,
        seed: int,
        section_tokens: int = SECTION_TOKENS,
    ) -> None:
        self.documents, self.chosen, self.plan = documents, chosen, plan
        self.seed, self.section_tokens = seed, section_tokens
        self.position = Position()
        self._lengths = documents.document_lengths()[chosen]
        windows = getattr(documents, "windows", None)  # of shards in an object store
        self._windows: np.ndarray | None = None if windows is None else windows[chosen]
        self._sections: tuple[int, list[np.ndarray]] | None = None
        self._planned: tuple[tuple[int, int], list[Example]] | None = None

    def take(self, count: int) -> list[Example]:
        """Returns the next `count` examples, across sections and epochs. Raises InputError if an epoch has none."""
        taken: list[Example] = []
        empty = 0
        while len(taken) < count:
            place = self.position
            examples = self.section(place.epoch, place.section)
            empty = 0 if examples else empty + 1
            if empty > len(self.sections(place.epoch)):
                raise InputError("The text has no examples for this objective: its documents are too short.")
            part = examples[place.example : place.example + count - len(taken)]
            taken += part
            place.example += len(part)
            if place.example >= len(examples):
                is_last = place.section + 1 >= len(self.sections(place.epoch))
                self.position = Position(place.epoch + 1) if is_last else Position(place.epoch, place.section + 1)
        return taken

    def sections(self, epoch: int) -> list[np.ndarray]:
        """Returns the documents of each section of an epoch."""
        if self._sections is None or self._sections[0] != epoch:
            order = generator(self.seed, "documents", epoch).permutation(len(self.chosen))
            if self._windows is not None:
                ranks = generator(self.seed, "windows", epoch).permutation(int(self._windows.max()) + 1)
                order = order[np.argsort(ranks[self._windows[order]], kind="stable")]
            self._sections = (epoch, _cut(self.chosen[order], self._lengths[order], self.section_tokens))
        return self._sections[1]

    def section(self, epoch: int, number: int) -> list[Example]:
        if self._planned is None or self._planned[0] != (epoch, number):
            bounds = {}
            for document in self.sections(epoch)[number].tolist():
                edges = sentence_bounds(self.documents.sentence_lengths_of(document))
                if len(edges) > 1:
                    bounds[document] = edges
            rng = generator(self.seed, "examples", epoch, number)
            examples = self.plan(bounds, rng)
            order = rng.permutation(len(examples))
            self._planned = ((epoch, number), [examples[index] for index in order])
        return self._planned[1]

    def state(self) -> dict[str, int]:
        return asdict(self.position)

    def restore(self, state: dict[str, int]) -> None:
        self.position = Position(**state)


class ExampleBatches:
    """Batches of `sequences` examples from a stream. pack: makes a batch from examples."""

    def __init__(self, pack: Packer, stream: ExampleStream, sequences: int) -> None:
        self.pack, self.stream, self.sequences = pack, stream, sequences

    def batch(self, step: int, number: int) -> Batch:
        rng = generator(self.stream.seed, "masks", step, number)
        return self.pack(self.stream.documents, self.stream.take(self.sequences), rng)

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]:
        """Returns the micro-batches of a step that `deal` chooses, with their numbers; the stream advances over all
        `count`.
        """
        stream, taken = self.stream, [self.stream.take(self.sequences) for _ in range(count)]
        sizes = [sum(one.a_stop - one.a_start + one.b_stop - one.b_start for one in examples) for examples in taken]
        return [
            (number, self.pack(stream.documents, taken[number], generator(stream.seed, "masks", step, number)))
            for number in deal(sizes)
        ]

    def state(self) -> dict[str, int]:
        return self.stream.state()

    def restore(self, state: dict[str, int]) -> None:
        self.stream.restore(state)


def split_documents(
    lengths: np.ndarray, share: float, seed: int, windows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Holds out documents for evaluation. Returns (training, held out), both ascending int64.

    lengths: int64 [documents] in tokens. Takes documents in random order until `share` of the tokens is held out, at
    least two (a pair needs two); a corpus of fewer than eight documents holds out none. windows: of shards in an object
    store; then all held-out documents are in the first one, so an evaluation needs few shards.
    """
    everything = np.arange(len(lengths))
    if share <= 0 or len(lengths) < 8:
        return everything, everything[:0]
    order = generator(seed, "held out").permutation(len(lengths))
    most = len(lengths) // 2
    if windows is not None:
        order = order[np.argsort(windows[order], kind="stable")]
        most = min(most, int((windows == 0).sum()))
    count = int(np.searchsorted(np.cumsum(lengths[order]), share * lengths.sum())) + 1
    count = min(max(count, 2), most)
    return np.sort(order[count:]), np.sort(order[:count])


def _cut(documents: np.ndarray, lengths: np.ndarray, section_tokens: int) -> list[np.ndarray]:
    """Splits documents into sections of about `section_tokens` tokens, each of at least two documents if possible."""
    number = np.minimum(np.cumsum(lengths) // section_tokens, len(documents) // 2)
    starts = [0]
    for start in np.flatnonzero(np.diff(number)) + 1:
        if start - starts[-1] >= 2 and len(documents) - start >= 2:
            starts.append(int(start))
    return np.split(documents, starts[1:])
