"""Cross-entropy over a whole vocabulary, in parts, so that its scores never exist all at once.

Scores of 5,000 positions over 30,522 words are 600 MB in float32, and a plain loss holds them several times. Here each
part's scores become its share of every gradient while they are at hand, and are gone before the next part's: nothing is
kept for the backward pass but those gradients, and nothing is computed twice. With p the softmax of the scores and y
the right word, the gradient of the summed loss is p - one_hot(y) for the scores. Label smoothing (Szegedy et al. 2016,
section 7) puts (1 - e) one_hot(y) + e / vocab in the place of one_hot(y).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# Scores held at once: on a CPU so many that they are written and read in its larger caches; a GPU wants large products.
MOST_SCORES = {"cpu": 1 << 23}
MOST_SCORES_ELSEWHERE = 1 << 26


def vocabulary_loss(
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    most: int | None = None,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of scores = vectors table^T + bias against labels, and how many are right; both scalars.

    vectors: float [positions, size], in whose dtype the products are; table: float [vocab, size]; bias: float [vocab],
    or None; labels: int64 [positions]. The loss is float32 (float64 where vectors are). most: scores held at once;
    label_smoothing: the part of the right word's probability that is spread over all words. The gradient can be taken
    once.
    """
    most = most_scores(vectors.device.type) if most is None else most
    rows = max(most // len(table), 1)
    if not torch.is_grad_enabled():
        return _without_gradients(vectors, table, bias, labels, rows, label_smoothing)
    loss, right = _VocabularyLoss.apply(vectors, table, bias, labels, rows, label_smoothing)
    return loss, right


def most_scores(device_type: str) -> int:
    """Scores of words that are held at once on a device of this type, where one position has no more by itself."""
    return MOST_SCORES.get(device_type, MOST_SCORES_ELSEWHERE)


def _without_gradients(
    vectors: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, rows: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The same sums where nothing is learnt: no shares are made that gradients would be made of."""
    wide = _wide(vectors)
    weight, offset = table.to(vectors.dtype), None if bias is None else bias.to(vectors.dtype)
    loss = torch.zeros((), dtype=wide, device=vectors.device)
    right = torch.zeros((), dtype=torch.int64, device=vectors.device)
    for part, own in _parts(vectors, labels, rows):
        scores = F.linear(part, weight, offset).to(wide)  # [rows, vocab]
        right += _first_is_right(scores, scores.amax(dim=-1, keepdim=True), scores.gather(1, own.unsqueeze(1)), own)
        logs = torch.log_softmax(scores, dim=-1)
        loss -= (1 - smoothing) * logs.gather(1, own.unsqueeze(1)).sum()
        if smoothing:
            loss -= smoothing / len(table) * logs.sum()
    return loss, right


class _VocabularyLoss(torch.autograd.Function):
    """Makes gradients in the forward pass, for an upstream gradient of 1; the backward pass scales them."""

    @staticmethod
    def forward(
        context: Any,
        vectors: Tensor,
        table: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        rows: int,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """rows: positions of a part. See `vocabulary_loss` for the [...]."""
        wide = _wide(vectors)
        weight, offset = table.to(vectors.dtype), None if bias is None else bias.to(vectors.dtype)
        spread = smoothing / len(table)  # what every word has
        loss = torch.zeros((), dtype=wide, device=vectors.device)
        right = torch.zeros((), dtype=torch.int64, device=vectors.device)
        wanted = list(context.needs_input_grad[:3])
        sums = _Gradients(vectors, table, bias, wide, wanted)
        for part, own in _parts(vectors, labels, rows):
            scores = F.linear(part, weight, offset).to(wide)  # [rows, vocab]
            at_label = scores.gather(1, own.unsqueeze(1))  # [rows, 1]
            highest = scores.amax(dim=-1, keepdim=True)  # [rows, 1]
            right += _first_is_right(scores, highest, at_label, own)
            shares = torch.softmax(scores, dim=-1)  # [rows, vocab]
            # log(sum(exp(scores))), from the largest share: it is at least 1 / vocab, so its logarithm is exact.
            total = highest - shares.amax(dim=-1, keepdim=True).log()  # [rows, 1]
            loss += (total - (1 - smoothing) * at_label).sum()
            if smoothing:
                loss -= spread * scores.sum()
            if any(wanted):
                shares.scatter_add_(1, own.unsqueeze(1), shares.new_full(at_label.shape, smoothing - 1.0))
                if smoothing:
                    shares -= spread
                sums.add(shares, part, weight)
        context.sums = sums.done()
        context.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients, scaled by the loss's own, a scalar []."""
        if context.sums is None:
            raise RuntimeError("The gradient of vocabulary_loss can be taken once.")
        sums, context.sums = context.sums, None
        scaled = [None if one is None else one.mul_(gradients[0].to(one.dtype)) for one in sums]
        return (*scaled, None, None, None)


def _wide(vectors: Tensor) -> torch.dtype:
    """What sums are held in."""
    return torch.float64 if vectors.dtype == torch.float64 else torch.float32


def _parts(vectors: Tensor, labels: Tensor, rows: int) -> Iterable[tuple[Tensor, Tensor]]:
    """Positions of about equal number, at most `rows`, with their labels."""
    number = -(-len(labels) // rows)
    return zip(vectors.tensor_split(number), labels.tensor_split(number), strict=True) if number else ()


def _first_is_right(scores: Tensor, highest: Tensor, at_label: Tensor, labels: Tensor) -> Tensor:
    """How many rows have their first highest score at the label: int64 []. scores: float [rows, vocab]; labels: [rows].

    argmax takes ten times as long as amax, so only rows whose label has the highest score are asked for the first.
    """
    rows = (at_label == highest).squeeze(1).nonzero().squeeze(1)  # [rows that may be right]
    return (scores[rows].argmax(dim=-1) == labels[rows]).sum()


class _Gradients:
    """Sums over parts: for the vectors in their dtype, for table and bias in float32 (or float64)."""

    def __init__(
        self, vectors: Tensor, table: Tensor, bias: Tensor | None, wide: torch.dtype, wanted: list[bool]
    ) -> None:
        self.dtypes = vectors.dtype, table.dtype, wide if bias is None else bias.dtype
        self.for_vectors: list[Tensor] | None = [] if wanted[0] else None
        self.for_table = torch.zeros_like(table, dtype=wide) if wanted[1] else None
        self.for_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and wanted[2] else None
        self.none_like = vectors

    def add(self, slopes: Tensor, vectors: Tensor, weight: Tensor) -> None:
        """slopes: gradient of the scores [rows, vocab]; vectors: [rows, size]; weight: [vocab, size]."""
        if self.for_bias is not None:
            self.for_bias += slopes.sum(dim=0)
        slopes = slopes.to(vectors.dtype)
        if self.for_vectors is not None:
            self.for_vectors.append(slopes @ weight)
        if self.for_table is None:
            return
        if self.for_table.dtype == vectors.dtype:
            self.for_table.addmm_(slopes.T, vectors)
        else:
            self.for_table += slopes.T @ vectors

    def done(self) -> tuple[Tensor | None, ...]:
        """For vectors [positions, size], table [vocab, size] and bias [vocab]; None where none is wanted."""
        own = None
        if self.for_vectors is not None:
            own = torch.cat(self.for_vectors) if self.for_vectors else torch.zeros_like(self.none_like)
        found = (own, self.for_table, self.for_bias)
        return tuple(None if one is None else one.to(dtype) for one, dtype in zip(found, self.dtypes, strict=True))
