"""What is done to the logits of a next token before one is chosen: pure functions on [rows, vocab].

The order is repetition penalty, temperature, top-k, top-p, as elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...core.config import check

PART = 64  # of a row of scores, looked through at once
COLDEST = 1e-6  # temperature: logits divided by less may pass every number
HEAD = 1_024  # the most probable tokens among which the nucleus is looked for first: a sort of all is slow


class Decoder(Protocol):
    """Rows of text that grow; causal.py has one. The logits are float32 [rows, vocab]."""

    def start(self) -> Tensor:
        """Logits of the first token of each row."""

    def step(self, tokens: Tensor) -> Tensor:
        """Those of the token after `tokens`, int64 [rows]."""

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Go on with `rows`, int64 [kept], in that order; one may come more than once.

        same_texts: each began like the row whose place it takes.
        """


@dataclass(frozen=True)
class Rules:
    """How a token is drawn.

    greedy: take the most probable one; temperature: what logits are divided by; top_k: only the k most probable, None
    for all; top_p: only the most probable ones that together have at least this probability (Holtzman et al. 2020),
    None for all; repetition_penalty: what makes tokens that have come before less probable (Keskar et al. 2019,
    section 4.1), 1 for nothing. Raises ConfigError for values out of range.
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
            f"temperature is {heat}; it must be above 0 ({COLDEST:f} at least). For the most probable token each time "
            "use --greedy.",
        )
        check(self.top_k is None or self.top_k >= 1, f"top_k is {self.top_k}; it must be at least 1.")
        check(self.top_p is None or 0 < self.top_p <= 1, f"top_p is {self.top_p}; it must be above 0 and at most 1.")
        check(
            self.repetition_penalty > 0,
            f"repetition_penalty is {self.repetition_penalty}; it must be above 0, 1 for none.",
        )
        drawn = heat != 1 or self.top_k is not None or self.top_p is not None
        check(not (self.greedy and drawn), "greedy draws nothing: leave temperature, top_k and top_p out.")


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Divide the logits of tokens that were seen by `penalty` where they are positive, else multiply.

    logits: float [rows, vocab], as is the result; seen: int64 [rows, tokens], one may come more than once.
    """
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


def probabilities(logits: Tensor, rules: Rules) -> tuple[Tensor, Tensor | None]:
    """The probabilities of the tokens that may be drawn: float64 [rows, n], and their ids int64 [rows, n], the most
    probable first; None for all tokens by their number. logits: float [rows, vocab].
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
    """Shares in descending order, float64 [rows, n]: those before which less than top_p was collected, summing to 1."""
    if top_p is not None and top_p < 1:
        shares = shares.masked_fill(shares.cumsum(dim=-1) - shares >= top_p, 0.0)
    return shares / shares.sum(dim=-1, keepdim=True)


def draw(shares: Tensor, uniforms: Tensor) -> Tensor:
    """For each row the index at which the sum of its shares passes a uniform number: int64 [rows].

    shares: float64 [rows, n], each row summing to 1; uniforms: float64 [rows], from 0 to below 1. An index whose share
    is 0 is never drawn.
    """
    sums = shares.cumsum(dim=-1)
    total = sums[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(sums, torch.minimum(uniforms[:, None] * total, below), right=True).squeeze(1)


def choose(logits: Tensor, rules: Rules, uniforms: Tensor | None, seen: Tensor | None) -> Tensor:
    """The next token of each row, int64 [rows].

    logits: float [rows, vocab]; uniforms: float64 [rows], None for greedy rules; seen: int64 [rows, tokens] that came
    before, needed for a repetition penalty.
    """
    if seen is not None and rules.repetition_penalty != 1:
        logits = penalise(logits, seen, rules.repetition_penalty)
    if rules.greedy or uniforms is None:
        return most_probable(logits)
    shares, ids = probabilities(logits, rules)
    drawn = draw(shares, uniforms)
    return drawn if ids is None else ids.gather(1, drawn[:, None]).squeeze(1)


def most_probable(scores: Tensor) -> Tensor:
    """The first highest place of each row: int64 [rows]; argmax in a part of its time. scores: float [rows, vocab]."""
    rows, vocab = scores.shape
    whole = vocab - vocab % PART
    if scores.device.type != "cpu" or not whole:
        return scores.argmax(dim=-1)
    parts = scores[:, :whole].unflatten(1, (-1, PART))  # [rows, parts, PART]
    best, part = parts.amax(dim=-1).max(dim=-1)  # [rows] each; of equal ones the first
    inside = parts[torch.arange(rows), part].argmax(dim=-1)
    found = part * PART + inside
    if whole == vocab:
        return found
    last, place = scores[:, whole:].max(dim=-1)
    return torch.where(last > best, whole + place, found)


def highest(scores: Tensor, few: int) -> tuple[Tensor, Tensor]:
    """The `few` highest scores of each row, descending, and their places: topk, in half its time on a CPU.

    The highest of all are in the parts with the highest ones. scores: float [rows, vocab]. Returns [rows, few] each.
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
