"""Greedy decoding and sampling, one token at a time, until an end token, a stop condition, or the maximum length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from .rules import Decoder, Rules, choose, highest

# -- Constrained decoding: next tokens allowed by a rule on the generated tokens (such as a grammar) -----------------


MayCome = Callable[[int], bool]
Allows = Callable[[int, list[int]], MayCome]  # text index, generated tokens -> which token is allowed next
LOOKED = 64  # most probable tokens checked first; the rest of the vocabulary only if none of these is allowed


def of_texts(allows: Allows, numbers: Sequence[int]) -> Allows:
    """Restricts a rule to some of the texts, with new indices."""

    def own(text: int, ids: list[int]) -> MayCome:
        """Maps to the original index of the text."""
        return allows(numbers[text], ids)

    return own


def highest_allowed(shares: Tensor, few: int, rules: Sequence[MayCome | None]) -> tuple[Tensor, Tensor]:
    """The `few` highest allowed scores of each row and their indices, [rows, few] each; -inf if there are fewer.

    shares: float [rows, vocab], -inf for banned tokens; rules: per row, None for a row to skip.
    """
    values, ids = shares.new_full((len(shares), few), -torch.inf), torch.zeros(len(shares), few, dtype=torch.int64)
    for row, rule in enumerate(rules):
        if rule is None:
            continue
        own = shares[row].cpu()
        near = highest(own[None], min(max(LOOKED, few), len(own)))[1][0].tolist()  # descending
        found = list(islice(filter(rule, near), few))
        if not found:
            found = list(islice(filter(rule, own.argsort(descending=True)[len(near) :].tolist()), 1))
        values[row, : len(found)] = own[found].to(values)
        ids[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
    return values, ids.to(shares.device)


Result = TypeVar("Result")
Watch = Callable[[int, int], bool]  # row, token -> whether the row should stop


@dataclass
class GeneratedText:
    """A generated continuation.

    ids: its tokens, without the end token; score: sum of log probabilities, including the end token; is_ended: whether
    the model ended it.
    """

    ids: list[int] = field(default_factory=list)
    score: float = 0.0
    is_ended: bool = False


class Seen:
    """The previous tokens of each row for the repetition penalty: int64 [rows, tokens], padded with the last one."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        longest = max(map(len, prompts))
        self.ids = torch.tensor([[*prompt, *[prompt[-1]] * (longest - len(prompt))] for prompt in prompts])

    def add(self, tokens: Tensor) -> None:
        """Appends the next token of each row: int64 [rows]."""
        self.ids = torch.cat([self.ids, tokens.cpu()[:, None]], dim=1)

    def keep(self, rows: Tensor) -> None:
        """Keeps only these rows, int64 [kept]."""
        self.ids = self.ids[rows.cpu()]


def grow(
    decoder: Decoder, prompts: Sequence[Sequence[int]], rules: Rules, *, max_new_tokens: int, **options: Any
) -> list[GeneratedText]:
    """Runs all steps of `grow_steps`, which has the same arguments; returns its result."""
    return finished(grow_steps(decoder, prompts, rules, max_new_tokens=max_new_tokens, **options))


def finished(steps: Generator[None, None, Result]) -> Result:
    """Runs all steps of a generator; returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def grow_steps(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    rules: Rules,
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    banned_ids: Collection[int] = (),
    uniforms: Tensor | None = None,
    copies: int = 1,
    watch: Watch | None = None,
) -> Generator[None, None, list[GeneratedText]]:
    """Generates continuations, and yields after each step. The result is `copies` texts per prompt, adjacent.

    Args:
        prompts: Ids of each text, already passed to the decoder.
        rules: How tokens are selected.
        end_ids: Tokens that end a text.
        banned_ids: Tokens that are excluded, without renormalization.
        uniforms: float64 [rows, max_new_tokens] in [0, 1), random numbers for sampling; None for greedy rules.
        copies: Rows per text.
        watch: Called with every token; returns whether its row should stop.
    """
    logits = decoder.start()
    rows = torch.arange(len(prompts)).repeat_interleave(copies)
    if copies > 1:
        decoder.keep(rows)
        logits = logits[rows.to(logits.device)]
    seen = Seen([prompts[row] for row in rows.tolist()]) if rules.repetition_penalty != 1 else None
    grown = [GeneratedText() for _ in rows]
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=logits.device)
    live = list(range(len(grown)))  # the result of each decoder row
    going = set(live)
    tokens = rows  # of the previous step; none yet
    announce = getattr(decoder, "announce", None)  # of a decoder that computes its steps with others
    for step in range(max_new_tokens):
        if step:
            if announce is not None:
                announce(tokens)
            yield
            logits = decoder.step(tokens)
        own = None if uniforms is None else uniforms[live, step].to(logits.device)
        allowed = logits.index_fill(1, banned, -torch.inf) if len(banned) else logits
        tokens = choose(allowed, rules, own, None if seen is None else seen.ids.to(logits.device))
        gained = logits.log_softmax(dim=-1).gather(1, tokens[:, None]).squeeze(1)  # [rows]; faster than logsumexp
        if seen is not None:
            seen.add(tokens)
        for row, token, score in zip(live, tokens.tolist(), gained.tolist(), strict=True):
            if row in going and not _add(grown[row], token, score, end_ids, watch, row):
                going.discard(row)
        if not going:
            break
        if 2 * len(going) <= len(live):  # copying the active rows pays off when many have ended
            kept = [place for place, row in enumerate(live) if row in going]
            chosen = torch.tensor(kept)
            decoder.keep(chosen)
            tokens = tokens[chosen.to(tokens.device)]
            live = [live[place] for place in kept]
            if seen is not None:
                seen.keep(chosen)
    return grown


def _add(one: GeneratedText, token: int, score: float, end_ids: Collection[int], watch: Watch | None, row: int) -> bool:
    """Adds a token; returns whether the row continues."""
    one.score += score
    if token in end_ids:
        one.is_ended = True
        return False
    one.ids.append(token)
    return watch is None or not watch(row, token)
