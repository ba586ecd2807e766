"""How a pack is laid for recurrent kernels, which read one token of every sequence at each step.

Sequences of one length are a block as they stand. Others go longest first, step after step, without padding: torch's
packed sequences. Or they are a block with zeros behind the shorter ones: oneDNN's LSTM reads that at about twice the
speed, but it reads the zeros too, so what it remembers at the end of a sequence is not known. However a pack is laid,
the output of every token is that of its sequence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

LEAST_FILLED = 0.4  # of a padded block: with fewer tokens in it, packed sequences are read faster


class Reading:
    """How one pack is read, token after token of all sequences at once.

    lengths: tokens of each sequence, which may be 0; pads: a padded block may be made, where that is worth it.
    `length` is that of all sequences, None where they differ; `pads` says whether there is padding; `rows` int64 are
    the sequences in the order in which the kernel has them, None for all of them as they stand; `batch_sizes` are the
    rows that go on at each step, of packed sequences.
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

    def lay(self, vectors: Tensor, *, from_right: bool = False) -> Tensor:
        """Vectors of a pack, [tokens, size], as kernels read them: blocks are [steps, sequences, size], packed
        sequences [tokens, size].
        """
        if self.length is not None:
            steps = vectors.view(-1, self.length, vectors.shape[1]).transpose(0, 1)
            return steps.flip(0) if from_right else steps
        if not self.num_tokens:
            return vectors
        if self.pads:
            length, rows = self._block
            laid: Tensor = _Spread.apply(vectors, self._places[from_right], length * rows)
            return laid.view(length, rows, vectors.shape[1])
        packed: Tensor = _Pick.apply(vectors, self._places[from_right])
        return packed

    def collect(self, laid: Tensor, *, from_right: bool = False) -> Tensor:
        """The way back of `lay`: float [tokens, size]."""
        if self.length is not None:
            steps = laid.flip(0) if from_right else laid
            return steps.transpose(0, 1).reshape(self.num_tokens, laid.shape[2])
        if not self.num_tokens:
            return laid
        found: Tensor
        if self.pads:
            found = _Pick.apply(laid.flatten(0, 1), self._places[from_right])
        else:
            found = _Spread.apply(laid, self._places[from_right], self.num_tokens)
        return found

    def turn(self, laid: Tensor) -> Tensor:
        """A padded block, [steps, sequences, size], whose sequences are turned round, each within its own length."""
        turned: Tensor = _Pick.apply(laid.flatten(0, 1), self._turned)
        return turned.view_as(laid)

    def _pad(self, kept: np.ndarray, block: tuple[int, int], device: torch.device | str) -> None:
        """The place of each token in a block of steps and rows. kept: int64 [rows], the lengths."""
        self._block = block
        place, owner = _places_in(kept), np.repeat(np.arange(len(kept)), kept)
        from_left = place * block[1] + owner
        from_right = (np.repeat(kept, kept) - 1 - place) * block[1] + owner
        turned = np.arange(block[0] * block[1])  # zeros stay where they are
        turned[from_left] = from_right
        self._turned = torch.from_numpy(turned).to(device)
        self._places = [torch.from_numpy(one).to(device) for one in (from_left, from_right)]

    def _pack(self, kept: np.ndarray, device: torch.device | str) -> np.ndarray:
        """Which token comes when, and the rows longest first: int64 [rows]. kept: int64 [rows], the lengths."""
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


def whole_texts(lengths: Sequence[int], device: torch.device | str, cell: str) -> Reading:
    """A reading of texts behind whose ends nothing goes on, laid as the kernel of this cell reads it fastest."""
    return Reading(lengths, device, pads=cell == "lstm" and torch.device(device).type == "cpu")


def _places_in(lengths: np.ndarray) -> np.ndarray:
    """The place of each token in its sequence: int64 [tokens]."""
    starts = np.cumsum(lengths) - lengths
    places: np.ndarray = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    return places


class _Pick(torch.autograd.Function):
    """Some rows of a matrix, each once at most, so that the gradient is copied back: plain indexing has to add it."""

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


class _Spread(torch.autograd.Function):
    """The rows of a matrix at places of their own, with zeros between them."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, places: Tensor, number: int) -> Tensor:
        """matrix: [rows, size]; places: int64 [rows]; number: rows of the result. Returns [number, size]."""
        context.save_for_backward(places)
        return matrix.new_zeros(number, matrix.shape[1]).index_copy_(0, places, matrix)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """gradients: one, [number, size]."""
        return _Pick.apply(gradients[0], context.saved_tensors[0]), None, None
