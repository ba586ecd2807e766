"""Layout of packed sequences for recurrent kernels, which process one token of every sequence per step.

Sequences of equal length form a block without copying. Others become torch's packed sequences, longest first and
without padding, or a zero-padded block: oneDNN's LSTM is about twice as fast on padded blocks, but also processes the
padding, so the final states of the sequences are unavailable. In every layout, the output of a token depends on its own
sequence only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .function import Function

LEAST_FILLED = 0.4  # fraction of tokens in a padded block; below it, packed sequences are faster


class PackedRecurrence:
    """How the sequences of one pack are processed together, token by token.

    Args:
        lengths: Tokens of each sequence, which may be 0.
        pads: Allow a padded block where it is faster.

    Attributes:
        length: Common length of all sequences, None if they differ.
        pads: Whether there is padding.
        rows: int64, the sequences in kernel order; None for all of them in the original order.
        batch_sizes: Number of active rows at each step (packed sequences only).
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu", *, pads: bool = False) -> None:
        every = np.asarray(lengths, dtype=np.int64)
        rows = np.flatnonzero(every)
        kept = every[rows]
        self.num_sequences, self.num_tokens = len(every), int(kept.sum())
        self.length = int(kept[0]) if len(kept) and (kept == kept[0]).all() else None
        self.pads = False
        self.batch_sizes: Tensor | None = None
        if self.length is None and len(kept):
            block = int(kept.max()), len(kept)  # steps, rows
            self.pads = pads and self.num_tokens >= LEAST_FILLED * block[0] * block[1]
            if self.pads:
                self._pad(kept, block, device)
            else:
                rows = rows[self._pack(kept, device)]
        whole = len(rows) == len(every) and (self.length is not None or self.pads)
        self.rows = None if whole else torch.from_numpy(rows).to(device)

    def to_kernel_layout(self, vectors: Tensor, *, from_right: bool = False) -> Tensor:
        """Converts the vectors of a pack, [tokens, size], to the kernel layout: blocks are [steps, sequences, size],
        packed sequences [tokens, size].
        """
        if self.length is not None:
            steps = vectors.view(-1, self.length, vectors.shape[1]).transpose(0, 1)
            return steps.flip(0) if from_right else steps
        if not self.num_tokens:
            return vectors
        if self.pads:
            length, rows = self._block
            arranged: Tensor = _Spread.apply(vectors, self._places[from_right], length * rows)
            return arranged.view(length, rows, vectors.shape[1])
        packed: Tensor = _Pick.apply(vectors, self._places[from_right])
        return packed

    def from_kernel_layout(self, arranged: Tensor, *, from_right: bool = False) -> Tensor:
        """The inverse of `to_kernel_layout`: float [tokens, size]."""
        if self.length is not None:
            steps = arranged.flip(0) if from_right else arranged
            return steps.transpose(0, 1).reshape(self.num_tokens, arranged.shape[2])
        if not self.num_tokens:
            return arranged
        found: Tensor
        if self.pads:
            found = _Pick.apply(arranged.flatten(0, 1), self._places[from_right])
        else:
            found = _Spread.apply(arranged, self._places[from_right], self.num_tokens)
        return found

    def turn(self, arranged: Tensor) -> Tensor:
        """Reverses each sequence of a padded block, [steps, sequences, size], within its own length."""
        turned: Tensor = _Pick.apply(arranged.flatten(0, 1), self._turned)
        return turned.view_as(arranged)

    def _pad(self, kept: np.ndarray, block: tuple[int, int], device: torch.device | str) -> None:
        """Computes the slot of each token in a padded block. kept: int64 [rows], the lengths."""
        self._block = block
        place, owner = _places_in(kept), np.repeat(np.arange(len(kept)), kept)
        from_left = place * block[1] + owner
        from_right = (np.repeat(kept, kept) - 1 - place) * block[1] + owner
        turned = np.arange(block[0] * block[1])  # padding stays in place
        turned[from_left] = from_right
        self._turned = torch.from_numpy(turned).to(device)
        self._places = [torch.from_numpy(one).to(device) for one in (from_left, from_right)]

    def _pack(self, kept: np.ndarray, device: torch.device | str) -> np.ndarray:
        """Computes the token order of packed sequences. kept: int64 [rows], the lengths. Returns the rows longest
        first: int64 [rows].
        """
        place = _places_in(kept)
        longest_first = np.argsort(-kept, kind="stable")
        rank = np.empty(len(kept), dtype=np.int64)
        rank[longest_first] = np.arange(len(kept))
        order = np.lexsort((np.repeat(rank, kept), place))
        starts = np.cumsum(kept) - kept
        turned = np.repeat(2 * starts + kept - 1, kept) - np.arange(self.num_tokens)
        self._places = [torch.from_numpy(one).to(device) for one in (order, turned[order])]
        self.batch_sizes = torch.from_numpy(np.bincount(place))
        return longest_first


def pack_whole_texts(lengths: Sequence[int], device: torch.device | str, cell: str) -> PackedRecurrence:
    """Layout of complete texts (no state is carried over), in the fastest form for this cell."""
    return PackedRecurrence(lengths, device, pads=cell == "lstm" and torch.device(device).type == "cpu")


def _places_in(lengths: np.ndarray) -> np.ndarray:
    """The position of each token in its sequence: int64 [tokens]."""
    starts = np.cumsum(lengths) - lengths
    places: np.ndarray = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    return places


class _Pick(Function):
    """Selects rows of a matrix, each at most once, so its gradient is a copy; plain indexing has to accumulate."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, places: Tensor) -> Tensor:
        """matrix: [rows, size]; places: int64 [picked]. Returns [picked, size]."""
        context.save_for_backward(places)
        context.number = len(matrix)
        return matrix.index_select(0, places)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """gradients: one, [picked, size]."""
        return _Spread.apply(gradients[0], context.saved_tensors[0], context.number), None


class _Spread(Function):
    """Scatters the rows of a matrix to distinct positions, with zeros between them."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, places: Tensor, number: int) -> Tensor:
        """matrix: [rows, size]; places: int64 [rows]; number: rows of the result. Returns [number, size]."""
        context.save_for_backward(places)
        return matrix.new_zeros(number, matrix.shape[1]).index_copy_(0, places, matrix)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """gradients: one, [number, size]."""
        return _Pick.apply(gradients[0], context.saved_tensors[0]), None, None
