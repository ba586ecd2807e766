"""Text in lanes: documents end to end, cut into rows that are read side by side, a stretch of each at a time.

So the next batch goes on where this one ends, which is what truncated backpropagation through time needs: the gradient
ends with the stretch, what is remembered does not (Williams and Peng 1990; Mikolov et al. 2010, section 2).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch
from .pretraining import Recipe
from .stream import Documents


@dataclass
class LanePlace:
    """The next stretch: number `stretch` of epoch `epoch`."""

    epoch: int = 0
    stretch: int = 0


class Lanes:
    """Stretches without end, of the same lanes one behind the other.

    documents: the shards; chosen: int64 [documents], which of them are read, in this order; recipe: what frames a text,
    and how many tokens a stretch has (max_length); num_lanes: rows; seed: names where each epoch begins in the text,
    None to begin at its first token.
    """

    def __init__(
        self, documents: Documents, chosen: np.ndarray, recipe: Recipe, num_lanes: int, seed: int | None
    ) -> None:
        self.documents, self.chosen, self.recipe, self.seed = documents, chosen, recipe, seed
        self.before = [recipe.cls_id] if recipe.frames else []
        self.after = [recipe.sep_id]
        lengths = documents.document_lengths()[chosen] + len(self.before) + len(self.after)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.num_tokens = int(self.starts[-1])
        # A short text has fewer lanes, each long enough to be worth remembering.
        self.num_lanes = max(min(num_lanes, self.num_tokens // (2 * recipe.max_length)), 1)
        self.lane_tokens = self.num_tokens // self.num_lanes
        if self.lane_tokens < 2:
            raise InputError("The text holds nothing to guess: give at least two tokens.")
        self.place = LanePlace()

    @property
    def stretches(self) -> int:
        """Of one epoch."""
        return -(-(self.lane_tokens - 1) // self.recipe.max_length)

    def take(self) -> tuple[np.ndarray, bool]:
        """The next stretch, int64 [lanes, tokens + 1]: what is read, and one token more; and whether it begins anew.

        A stretch begins with the token that the one before it ended with.
        """
        epoch, number = self.place.epoch, self.place.stretch
        start = number * self.recipe.max_length
        stop = min(start + self.recipe.max_length, self.lane_tokens - 1)
        shift = 0 if self.seed is None else int(generator(self.seed, "lanes", epoch).integers(self.num_tokens))
        rows = [self._read(shift + lane * self.lane_tokens + start, stop - start + 1) for lane in range(self.num_lanes)]
        self.place = LanePlace(epoch, number + 1) if number + 1 < self.stretches else LanePlace(epoch + 1)
        return np.stack(rows), number == 0

    def state(self) -> dict[str, int]:
        """The place as plain values."""
        return asdict(self.place)

    def restore(self, state: dict[str, int]) -> None:
        """Go to a place that `state` gave."""
        self.place = LanePlace(**state)

    def _read(self, start: int, count: int) -> np.ndarray:
        """Tokens of the whole text, which begins again behind its end: int64 [count]."""
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


class LaneBatches:
    """The stretches of lanes as batches, `accumulation` of them side by side in a step."""

    def __init__(self, lanes: Lanes, accumulation: int = 1) -> None:
        self.lanes, self.accumulation = lanes, accumulation
        self._stretch: tuple[np.ndarray, bool] | None = None

    def batch(self, step: int, number: int) -> Batch:
        """Micro-batch `number` of a step, asked for in order.

        Labels: "clm_positions", where a token is guessed, and "clm", which one; "lanes" int64 [sequences], the lane of
        each sequence, neighbours; "goes_on" bool [sequences], whether it goes on from the step before.
        """
        if number == 0 or self._stretch is None:
            self._stretch = self.lanes.take()
        rows, begins = self._stretch
        own = np.array_split(np.arange(len(rows)), self.accumulation)[number]
        wanted = torch.from_numpy(rows[own, 1:].copy()).flatten()  # [tokens]
        positions = torch.arange(len(wanted))
        if self.lanes.before:  # that a text begins is nothing to guess
            positions = positions[wanted != self.lanes.before[0]]
        return Batch.from_sequences(list(rows[own, :-1])).with_labels(
            clm_positions=positions,
            clm=wanted[positions],
            lanes=torch.from_numpy(own),
            goes_on=torch.full((len(own),), not begins),
        )

    def state(self) -> dict[str, int]:
        """Where the lanes are."""
        return self.lanes.state()

    def restore(self, state: dict[str, int]) -> None:
        """Go to where they were."""
        self.lanes.restore(state)
