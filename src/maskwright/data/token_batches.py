"""Batches of similar sequence length with a fixed number of tokens (Vaswani et al. 2017, section 5.1)."""

from __future__ import annotations

import numpy as np

from ..core.randomness import generator
from .batch import chunks_by_tokens


class TokenBatches:
    """Batches of at most `budget` tokens; a longer row gets its own batch.

    Rows are sorted by length and split into batches. The order of rows of equal length and the order of the batches are
    resampled in each epoch; the number of batches is the same in all epochs.
    """

    def __init__(self, lengths: np.ndarray, budget: int, seed: int) -> None:
        self.lengths, self.seed = np.asarray(lengths, dtype=np.int64), seed
        own = np.sort(self.lengths).tolist()
        self._sizes = [len(chunk) for chunk in chunks_by_tokens(range(len(own)), own, budget)]
        self._epoch: tuple[int, list[np.ndarray]] | None = None

    def __len__(self) -> int:
        return len(self._sizes)

    def rows(self, epoch: int, number: int) -> np.ndarray:
        """Batch `number` of an epoch: int64 [rows]."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, self._draw(epoch))
        return self._epoch[1][number]

    def _draw(self, epoch: int) -> list[np.ndarray]:
        draws = generator(self.seed, "order", epoch)
        order = draws.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches = np.split(order, np.cumsum(self._sizes)[:-1])
        return [batches[place] for place in draws.permutation(len(batches))]
