"""Token selection from next-token logits: pure functions on [rows, vocab].

The order is repetition penalty, temperature, top-k, top-p, as in transformers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...core.config import check

PART = 64  # scores of a row searched at once
COLDEST = 1e-6  # minimum temperature and repetition penalty: dividing logits by less may overflow
HEAD = 1_024  # most probable tokens searched first for the nucleus: sorting the whole vocabulary is slow


class Decoder(Protocol):
    """Incremental decoding of several rows; see causal.py. Logits are float32 [rows, vocab]."""

    def start(self) -> Tensor:
        """Returns logits of the first new token of each row."""

    def step(self, tokens: Tensor) -> Tensor:
        """Appends `tokens`, int64 [rows], and returns logits of the next token."""

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        same_texts: each has the prompt of the row it replaces.
        """


class StartedDecoder(Decoder, Protocol):
    """Decoder whose rows all begin with the same token."""

    start_id: int


@dataclass(frozen=True)
class Rules:
    """Sampling settings. Raises ConfigError for values out of range.

    Args:
        greedy: Always take the most probable token.
        temperature: Divisor of the logits.
        top_k: Sample only from the k most probable tokens; None for all.
        top_p: Sample only from the smallest set of most probable tokens with at least this probability (nucleus
            sampling, Holtzman et al. 2020); None for all.
        repetition_penalty: Makes previous tokens less probable (Keskar et al. 2019, section 4.1); 1 for none.
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        heat = self.temperature
        check(
            COLDEST <= heat < math.inf,
            f"temperature is {heat}; it must be finite and at least {COLDEST:f}. To always take the most probable "
            "token, use --greedy.",
        )
        check(self.top_k is None or self.top_k >= 1, f"top_k is {self.top_k}; it must be at least 1.")
        check(self.top_p is None or 0 < self.top_p <= 1, f"top_p is {self.top_p}; it must be above 0 and at most 1.")
        check(
            COLDEST <= self.repetition_penalty <= 1 / COLDEST,
            f"repetition_penalty is {self.repetition_penalty}; it must be {COLDEST:f} to {1 / COLDEST:,.0f}.",
        )
        drawn = heat != 1 or self.top_k is not None or self.top_p is not None
        check(not (self.greedy and drawn), "greedy does not sample: remove temperature, top_k and top_p.")


def penalize(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Divides the logits of previous tokens by `penalty` if they are positive, else multiplies them.

    logits: float [rows, vocab], like the result; seen: int64 [rows, tokens], which may repeat.
    """
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


def probabilities(logits: Tensor, rules: Rules) -> tuple[Tensor, Tensor | None]:
    """Sampling probabilities: float64 [rows, n], and the token ids int64 [rows, n], most probable first; ids are None
    for the whole vocabulary in order. logits: float [rows, vocab].
    """
    vocab, heat = logits.shape[1], rules.temperature
    if rules.top_k is None:
        scores = logits.double() / heat
        if rules.top_p is None or rules.top_p == 1:
            return scores.softmax(dim=-1), None
        if vocab > 2 * HEAD:
            total = scores.logsumexp(dim=-1, keepdim=True)  # [rows, 1]
            values, ids = highest(scores, HEAD)
            shares = (values - total).exp()
            if bool((shares.sum(dim=-1) >= rules.top_p).all()):
                return _nucleus(shares, rules.top_p), ids
    values, ids = highest(logits, vocab if rules.top_k is None else min(rules.top_k, vocab))  # [rows, n], descending
    return _nucleus((values.double() / heat).softmax(dim=-1), rules.top_p), ids


def _nucleus(shares: Tensor, top_p: float | None) -> Tensor:
    """Nucleus of probabilities in descending order, float64 [rows, n]: 0 outside, renormalized to sum to 1."""
    if top_p is not None and top_p < 1:
        shares = shares.masked_fill(shares.cumsum(dim=-1) - shares >= top_p, 0.0)
    return shares / shares.sum(dim=-1, keepdim=True)


def draw(shares: Tensor, uniforms: Tensor) -> Tensor:
    """Samples an index per row by inverse transform sampling: int64 [rows].

    shares: float64 [rows, n], each row summing to 1; uniforms: float64 [rows] in [0, 1). An index with probability 0 is
    never sampled.
    """
    sums = shares.cumsum(dim=-1)
    total = sums[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(uniforms[:, None] * total, below), right=True).squeeze(1)


def choose(logits: Tensor, rules: Rules, uniforms: Tensor | None, seen: Tensor | None) -> Tensor:
    """The next token of each row, int64 [rows].

    logits: float [rows, vocab]; uniforms: float64 [rows], None for greedy rules; seen: int64 [rows, tokens], previous
    tokens, required for a repetition penalty.
    """
    if seen is not None and rules.repetition_penalty != 1:
        logits = penalize(logits, seen, rules.repetition_penalty)
    if rules.greedy or uniforms is None:
        return most_probable(logits)
    shares, ids = probabilities(logits, rules)
    drawn = draw(shares, uniforms)
    return drawn if ids is None else ids.gather(1, drawn[:, None]).squeeze(1)


def most_probable(scores: Tensor) -> Tensor:
    """The index of the first maximum of each row: int64 [rows]; faster than argmax. scores: float [rows, vocab]."""
    rows, vocab = scores.shape
    whole = vocab - vocab % PART
    if scores.device.type != "cpu" or not whole:
        return scores.argmax(dim=-1)
    parts = scores[:, :whole].unflatten(1, (-1, PART))  # [rows, parts, PART]
    best, part = parts.amax(dim=-1).max(dim=-1)  # [rows] each; of equal ones the first
    inside = parts[torch.arange(rows), part].argmax(dim=-1)
    found: Tensor = part * PART + inside  # [rows]
    if whole == vocab:
        return found
    last, place = scores[:, whole:].max(dim=-1)
    return torch.where(last > best, whole + place, found)


def highest(scores: Tensor, few: int) -> tuple[Tensor, Tensor]:
    """The `few` highest scores of each row, descending, and their indices: topk in half its time on a CPU.

    Searches only the blocks with the highest maxima. scores: float [rows, vocab]. Returns [rows, few] each.
    """
    vocab = scores.shape[1]
    whole = vocab - vocab % PART
    if scores.device.type != "cpu" or whole < 4 * few * PART // 2:
        return scores.topk(few)
    parts = scores[:, :whole].unflatten(1, (-1, PART))  # [rows, parts, PART]
    chosen = parts.amax(dim=-1).topk(few, sorted=False).indices[:, :, None]  # [rows, few, 1]
    near = parts.gather(1, chosen.expand(-1, -1, PART)).flatten(1)  # [rows, few * PART]
    places = (chosen * PART + torch.arange(PART)).flatten(1)
    if whole < vocab:
        near = torch.cat([near, scores[:, whole:]], dim=1)
        places = torch.cat([places, torch.arange(whole, vocab).expand(len(scores), -1)], dim=1)
    values, found = near.topk(few)
    return values, places.gather(1, found)
