"""Contiguous streams for truncated backpropagation through time (TBPTT).

The concatenated documents are split into parallel streams, the rows of a batch, and each batch has the next segment of
every stream. The gradient is truncated at the segment, but the hidden state is carried over (Williams and Peng 1990;
Mikolov et al. 2010, section 2).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch
from ..data.deal import Deal
from .base import Recipe
from .stream import Documents


@dataclass
class StreamPosition:
    """The next segment: number `stretch` of epoch `epoch`."""  # terms: ok

    epoch: int = 0
    stretch: int = 0


class ContiguousStreams:
    """Endless consecutive segments of parallel streams.

    Args:
        documents: The shards.
        chosen: int64 [documents], the documents to read, in order.
        recipe: Special tokens of a text, and the number of tokens of a segment (max_length).
        num_streams: Number of streams (rows).
        seed: Random seed of the start position in each epoch, None to start at the first token.
    """

    def __init__(
        self, documents: Documents, chosen: np.ndarray, recipe: Recipe, num_streams: int, seed: int | None
    ) -> None:
        self.documents, self.chosen, self.recipe, self.seed = documents, chosen, recipe, seed
        self.before = [recipe.cls_id] if recipe.frames else []
        self.after = [recipe.sep_id]
        lengths = documents.document_lengths()[chosen] + len(self.before) + len(self.after)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.num_tokens = int(self.starts[-1])
        # A short text has fewer streams, each long enough to carry state.
        self.num_streams = max(min(num_streams, self.num_tokens // (2 * recipe.max_length)), 1)
        self.stream_tokens = self.num_tokens // self.num_streams
        if self.stream_tokens < 2:
            raise InputError("The text has no token to predict: provide at least two tokens.")
        self.place = StreamPosition()

    @property
    def num_segments(self) -> int:
        """Number of segments per epoch."""
        return -(-(self.stream_tokens - 1) // self.recipe.max_length)

    def take(self) -> tuple[np.ndarray, bool]:
        """Returns the next segment, int64 [streams, tokens + 1] (the last token is only a target), and whether it
        starts from a reset state.

        A segment starts with the last token of the previous one.
        """
        epoch, number = self.place.epoch, self.place.stretch
        start = number * self.recipe.max_length
        stop = min(start + self.recipe.max_length, self.stream_tokens - 1)
        shift = 0 if self.seed is None else int(generator(self.seed, "lanes", epoch).integers(self.num_tokens))
        rows = [
            self._read(shift + stream * self.stream_tokens + start, stop - start + 1)
            for stream in range(self.num_streams)
        ]
        self.place = StreamPosition(epoch, number + 1) if number + 1 < self.num_segments else StreamPosition(epoch + 1)
        return np.stack(rows), number == 0

    def state(self) -> dict[str, int]:
        """Returns the position as plain values."""
        return asdict(self.place)

    def restore(self, state: dict[str, int]) -> None:
        """Restores a position from `state`."""
        self.place = StreamPosition(**state)

    def _read(self, start: int, count: int) -> np.ndarray:
        """Tokens of the concatenated text, which wraps around: int64 [count]."""
        parts: list[np.ndarray] = []
        place = start % self.num_tokens
        while count:
            number = int(np.searchsorted(self.starts, place, side="right")) - 1
            own = self.documents.document_tokens(int(self.chosen[number]))
            begin = place - int(self.starts[number])
            part = np.concatenate([self.before, own, self.after]).astype(np.int64)[begin : begin + count]
            parts.append(part)
            count -= len(part)
            place = (place + len(part)) % self.num_tokens
        return np.concatenate(parts)


class StreamBatches:
    """Segments of streams as batches, `accumulation` of them per step."""

    def __init__(self, streams: ContiguousStreams, accumulation: int = 1) -> None:
        self.streams, self.accumulation = streams, accumulation
        self._segment: tuple[np.ndarray, bool] | None = None

    def batch(self, step: int, number: int) -> Batch:
        """Returns micro-batch `number` of a step; call it in order.

        Labels: "clm_positions", where a token is predicted, and "clm", its id; "streams" int64 [sequences], consecutive
        stream numbers; "goes_on" bool [sequences], whether the state of the previous step is carried over.
        """
        if number == 0 or self._segment is None:
            self._segment = self.streams.take()
        rows, begins = self._segment
        own = np.array_split(np.arange(len(rows)), self.accumulation)[number]
        wanted = torch.from_numpy(rows[own, 1:].copy()).flatten()  # [tokens]
        positions = torch.arange(len(wanted))
        if self.streams.before:  # the first token of a text is not a target
            positions = positions[wanted != self.streams.before[0]]
        return Batch.from_sequences(list(rows[own, :-1])).with_labels(
            clm_positions=positions,
            clm=wanted[positions],
            streams=torch.from_numpy(own),
            goes_on=torch.full((len(own),), not begins),
        )

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]:
        """Returns the chosen micro-batches of a step: all of them, because the state is carried from each to the next.

        Raises InputError for another choice.
        """
        if deal([1] * count) != list(range(count)):
            raise InputError("Streams carry their state from batch to batch, so they cannot be split over processes.")
        return [(number, self.batch(step, number)) for number in range(count)]

    def state(self) -> dict[str, int]:
        """Returns the position of the streams."""
        return self.streams.state()

    def restore(self, state: dict[str, int]) -> None:
        """Restores the position of the streams."""
        self.streams.restore(state)
