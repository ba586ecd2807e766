"""Batches of so many tokens, not of so many rows, of nearly equal length (Vaswani et al. 2017, section 5.1)."""

from __future__ import annotations

import numpy as np

from ..core.randomness import generator
from ..data.batch import chunks_by_tokens


class TokenBatches:
    """Rows in batches of at most `budget` tokens; a longer row stands alone.

    Rows are sorted by length and cut into batches. Which of several rows of one length stands where, and the order of
    the batches, are drawn anew in each epoch; how many batches there are is the same in all.
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
