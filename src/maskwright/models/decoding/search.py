"""One token at a time: greedy or drawn, until a text ends, is told to stop, or has no steps left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .rules import Decoder, Rules, choose

Watch = Callable[[int, int], bool]  # row, token -> whether the row should stop


@dataclass
class Grown:
    """What was added to a text.

    ids: its tokens, the one that ends it not among them; score: the sum of their log probabilities, that one's too;
    is_ended: whether the model ended it.
    """

    ids: list[int] = field(default_factory=list)
    score: float = 0.0
    is_ended: bool = False


class Seen:
    """The tokens of each row so far, for the repetition penalty: int64 [rows, tokens], filled up with the last ones."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        longest = max(map(len, prompts))
        self.ids = torch.tensor([[*prompt, *[prompt[-1]] * (longest - len(prompt))] for prompt in prompts])

    def add(self, tokens: Tensor) -> None:
        """The next token of each row: int64 [rows]."""
        self.ids = torch.cat([self.ids, tokens.cpu()[:, None]], dim=1)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, int64 [kept]."""
        self.ids = self.ids[rows.cpu()]


def grow(
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
) -> list[Grown]:
    """Let every text grow.

    prompts: ids of each, which the decoder has; rules: how a token is chosen; end_ids: tokens that end a text;
    banned_ids: tokens that are never taken, and whose probability no other gets; uniforms: float64 [rows,
    max_new_tokens] from 0 to below 1, what draws are made of (None for greedy rules); copies: rows of each text; watch:
    told of every token, and asked whether its row should stop. Returns `copies` results for each text, side by side.
    """
    logits = decoder.start()
    rows = torch.arange(len(prompts)).repeat_interleave(copies)
    if copies > 1:
        decoder.keep(rows)
        logits = logits[rows.to(logits.device)]
    seen = Seen([prompts[row] for row in rows.tolist()]) if rules.repetition_penalty != 1 else None
    grown = [Grown() for _ in rows]
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=logits.device)
    live = list(range(len(grown)))  # the row behind each row of the decoder
    going = set(live)
    tokens = rows  # of the step before; none yet
    for step in range(max_new_tokens):
        if step:
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
        if 2 * len(going) <= len(live):  # the rows that go on are copied: worth it when many have ended
            kept = [place for place, row in enumerate(live) if row in going]
            chosen = torch.tensor(kept)
            decoder.keep(chosen)
            tokens = tokens[chosen.to(tokens.device)]
            live = [live[place] for place in kept]
            if seen is not None:
                seen.keep(chosen)
    return grown


def _add(one: Grown, token: int, score: float, end_ids: Collection[int], watch: Watch | None, row: int) -> bool:
    """Add a token; whether the row goes on."""
    one.score += score
    if token in end_ids:
        one.is_ended = True
        return False
    one.ids.append(token)
    return watch is None or not watch(row, token)
