"""Pooling of token vectors to one vector per sequence, and per text of several sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..data.batch import Batch

LEAST_LENGTH = 1e-12  # of a vector in a division


def mean_of(hidden: Tensor, batch: Batch) -> Tensor:
    """The mean of each sequence's vectors. hidden: float [tokens, hidden]. Returns float [sequences, hidden]."""
    lengths = torch.tensor(batch.lengths, device=hidden.device)
    each = torch.arange(len(lengths), device=hidden.device)
    sequence = torch.repeat_interleave(each, lengths, output_size=len(hidden))  # [tokens]; a GPU need not be asked
    sums = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add(0, sequence, hidden)
    return sums / lengths[:, None]


POOLINGS = ("cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def pool(vectors: Tensor, batch: Batch, pooling: str, normalize_tokens: bool = False, skipped: int = 0) -> Tensor:
    """Pools each sequence of a pack to one vector, as sentence-transformers does; special tokens count.

    vectors: float [tokens, size]; pooling: one of POOLINGS, or several joined by "+", whose results are concatenated:
    "cls" and "lasttoken" are the first and the last token, "mean_sqrt_len_tokens" the sum divided by the square root of
    the length, "weightedmean" the mean with weights 1, 2, 3, ...; a sequence without tokens
    becomes zeros; normalize_tokens: scale the tokens to length 1 first; skipped: tokens at the start of each sequence
    that do not count, which keep their places in "weightedmean"; the last token counts always.
    Returns float [sequences, size], for several poolings [sequences, their number * size].
    """
    vectors = unit_length(vectors) if normalize_tokens else vectors
    if skipped:
        vectors, batch = _without_start(vectors, batch, skipped)
    found = [_pool(vectors, batch, name, skipped) for name in pooling.split("+")]
    return found[0] if len(found) == 1 else torch.cat(found, dim=-1)


def _without_start(vectors: Tensor, batch: Batch, skipped: int) -> tuple[Tensor, Batch]:
    lengths = torch.tensor(batch.lengths)
    kept = (lengths - skipped).maximum(lengths.clamp(max=1))
    begins = torch.repeat_interleave(lengths.cumsum(0) - kept, lengths)  # first token that counts: [tokens]
    is_kept = (torch.arange(len(begins)) >= begins).to(vectors.device)
    return vectors[is_kept], Batch.from_sequences([range(count) for count in kept.tolist()]).to(vectors.device)


def _pool(vectors: Tensor, batch: Batch, pooling: str, skipped: int) -> Tensor:
    if pooling == "cls":
        return vectors[batch.first_tokens]
    if pooling == "lasttoken":
        return vectors[batch.last_tokens]
    parts = []
    for start, count, length in batch.runs:  # neighbors of equal length are a view
        block = vectors[start : start + count * length].view(count, length, -1)  # [count, length, size]
        if pooling == "max":
            parts.append(block.amax(dim=1))
        elif pooling == "weightedmean":
            weights = torch.arange(1, length + 1, device=block.device, dtype=block.dtype) + skipped
            parts.append(torch.einsum("cls,l->cs", block, weights / weights.sum()))
        else:
            mean = block.mean(dim=1)
            parts.append(mean if pooling == "mean" else mean * length**0.5)
    pooled = parts[0] if len(parts) == 1 else torch.cat([vectors[:0], *parts])  # [sequences with tokens, size]
    if len(pooled) == len(batch.lengths):
        return pooled
    result = pooled.new_zeros(len(batch.lengths), pooled.shape[1])  # zeros for sequences without tokens
    result[torch.tensor(batch.lengths, device=result.device) > 0] = pooled
    return result


def unit_length(vectors: Tensor) -> Tensor:
    """Scales vectors to length 1, with the numbers of `torch.nn.functional.normalize`, in fewer operations.

    vectors: float [..., size], as the result. A vector of zeros stays.
    """
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.clamp_min_(LEAST_LENGTH)


def state_of(vectors: Tensor, batch: Batch, both_ends: bool) -> Tensor:
    """The final state of a recurrent network for each sequence.

    vectors: float [tokens, size] of a layer; both_ends: whether it is bidirectional: then the first half comes from the
    last token and the second half from the first token; else all from the last token. Returns float [sequences, size].
    """
    last = vectors[batch.last_tokens]
    if not both_ends:
        return last
    half = vectors.shape[1] // 2
    return torch.cat([last[:, :half], vectors[batch.first_tokens, half:]], dim=-1)


def join_windows(vectors: Tensor, lengths: Tensor, counts: Sequence[int], pooling: str) -> Tensor:
    """Combines window embeddings of each text: their mean, weighted by tokens, or for "max" the maximum.

    Several poolings, as in `pool`, are combined each in its own way.

    vectors: float [windows, size], text by text; lengths: int64 [windows], tokens of each; counts: windows of each
    text, at least 1; pooling: how the window vectors were pooled. Returns float [texts, size]; with one window, the
    embedding is unchanged, bit for bit.
    """
    if len(vectors) == len(counts):
        return vectors
    names = pooling.split("+")
    if len(names) > 1:
        parts = zip(vectors.chunk(len(names), dim=-1), names, strict=True)
        return torch.cat([join_windows(part, lengths, counts, name) for part, name in parts], dim=-1)
    found = [
        own.amax(dim=0) if pooling == "max" else (own * (sizes / sizes.sum())[:, None].to(own.dtype)).sum(dim=0)
        for own, sizes in zip(vectors.split(list(counts)), lengths.to(vectors.device).split(list(counts)), strict=True)
    ]
    return torch.stack(found)  # [texts, size]


# -- Sparse embeddings from the logits of a masked language model ----------------------------------------------------

MOST_LOGITS = 1 << 24  # at a time: 64 MB


def sparse_pool(
    logits_of: Callable[[Tensor], Tensor], hidden: Tensor, batch: Batch, vocab_size: int, how: str, logs: int
) -> Iterator[Tensor]:
    """Yields the sparse embeddings of a pack in blocks, float32 [sequences, vocab], in order.

    The logits of a block are not kept for the backward pass, but computed again.

    logits_of: float [tokens, hidden] -> float [tokens, vocab]; hidden: float [tokens, hidden]; how: "max" or "sum" over
    the tokens; logs: how often log(1 + x) is applied.
    """

    def weights_of(part: Tensor, rows: int) -> Tensor:
        logits = logits_of(part).view(rows, -1, vocab_size)
        weights = (logits.amax(dim=1) if how == "max" else logits).float().relu()  # the largest stays the largest
        for _ in range(logs):
            weights = weights.log1p()
        return weights if how == "max" else weights.sum(dim=1)

    for start, count, length in batch.runs:
        step = max(1, MOST_LOGITS // (length * vocab_size))
        for part in hidden[start : start + count * length].split(step * length):
            rows = len(part) // length
            if part.requires_grad:
                yield checkpoint(weights_of, part, rows, use_reentrant=False, preserve_rng_state=False)
            else:
                yield weights_of(part, rows)


# -- What a sentence encoder may do with a pooled vector -------------------------------------------------------------


class Dense(nn.Module):
    """activation(W x + b), with `residual` plus x, or plus V x where the sizes differ.

    inputs, size: of its vectors; activation: name of a class of torch.nn, one of ACTIVATIONS.
    """

    def __init__(self, inputs: int, size: int, bias: bool, activation: str, residual: bool) -> None:
        super().__init__()
        self.size, self.activation = size, activation
        self.linear = nn.Linear(inputs, size, bias)
        self.residual: nn.Module | None = None
        if residual:
            self.residual = nn.Identity() if inputs == size else nn.Linear(inputs, size, bias=False)
        self._act: nn.Module = getattr(nn, activation)()

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [..., inputs]. Returns float [..., size]."""
        result: Tensor = self._act(self.linear(vectors))
        return result if self.residual is None else result + self.residual(vectors)


ACTIVATIONS = ("Tanh", "Identity", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish", "Softplus")


class VectorNorm(nn.Module):
    """Layer norm of a vector."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.norm = size, nn.LayerNorm(size)

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [..., size], as the result."""
        result: Tensor = self.norm(vectors)
        return result


class UnitLength(nn.Module):
    """Scales vectors to length 1."""

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [..., size], as the result."""
        return unit_length(vectors)


class Projection(nn.Sequential):
    """Dense layers, norms and scalings of the pooled vector, float [..., inputs], in order: float [..., size]."""

    @property
    def size(self) -> int:
        """Dimensions of the result."""
        return next(int(layer.size) for layer in reversed(self) if isinstance(layer, Dense | VectorNorm))
