"""Greedy decoding and sampling, and beam search for the most probable continuations (Graves 2012, section 3.2).

A score is the sum of log probabilities; that of a beam is divided by length ** length_penalty (length with the end
token).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...core.config import check
from .rules import Decoder, Rules, choose, highest, penalize

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


# -- Beam search -----------------------------------------------------------------------------------------------------


STEEPEST = 10  # maximum absolute length penalty, so that powers of every length are finite
MOST_BEAMS = 1_000  # per text; each beam has its own keys and values
NOTHING = -1e9  # score of an unused beam


@dataclass(frozen=True)
class Beams:
    """Beam search settings.

    Args:
        width: Beam size.
        num_results: Number of results per text, best first.
        length_penalty: Above 0 prefers long texts, below 0 short ones; 0 is the plain sum. Range -10 to 10.
        early_stopping: Stop when `width` texts have ended, instead of when no active beam can become better.
    """

    width: int = 1
    num_results: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False

    def __post_init__(self) -> None:
        check(1 <= self.width <= MOST_BEAMS, f"The beam size is {self.width}; it must be 1 to {MOST_BEAMS:,}.")
        check(
            1 <= self.num_results <= self.width,
            f"{self.num_results} results are requested from {self.width} beams: request 1 to {self.width}.",
        )
        check(
            -STEEPEST <= self.length_penalty <= STEEPEST,
            f"length_penalty is {self.length_penalty}; it must be a number from -{STEEPEST} to {STEEPEST}.",
        )


@dataclass
class _Text:
    """One text: its finished results with final scores, best first; and whether the search is done."""

    ended: list[tuple[float, GeneratedText]]
    is_done: bool = False


def search_beams(
    decoder: Decoder, prompts: Sequence[Sequence[int]], beams: Beams, *, max_new_tokens: int, **options: Any
) -> list[list[GeneratedText]]:
    """Runs all steps of `beam_steps`, which has the same arguments; returns its result."""
    return finished(beam_steps(decoder, prompts, beams, max_new_tokens=max_new_tokens, **options))


def beam_steps(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    beams: Beams,
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    banned_ids: Collection[int] = (),
    repetition_penalty: float = 1.0,
    allows: Allows | None = None,
) -> Generator[None, None, list[list[GeneratedText]]]:
    """Searches the best continuations of each text, and yields after each step.

    The result has at most `beams.num_results` of each text, best first.

    `score` is normalized by length. Arguments as in `search.grow`. allows: tokens allowed next in a text; a text
    without any allowed token has no result.
    """
    width = beams.width
    texts = [_Text([]) for _ in prompts]
    logits = decoder.start()  # [texts, vocab]
    rows = torch.arange(len(prompts)).repeat_interleave(width)
    decoder.keep(rows)
    logits = logits[rows.to(logits.device)]  # [texts * width, vocab]
    seen = Seen([prompts[row] for row in rows.tolist()]) if repetition_penalty != 1 else None
    running = torch.full((len(prompts), width), NOTHING, dtype=torch.float64)
    running[:, 0] = 0.0  # the beams of a text are identical at first: use only one
    history = torch.zeros(len(rows), max_new_tokens, dtype=torch.int64)
    live = list(range(len(prompts)))
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=logits.device)
    for step in range(1, max_new_tokens + 1):
        may = None
        if allows is not None:
            own = zip([text for text in live for _ in range(width)], history[:, : step - 1].tolist(), strict=True)
            exists = (running > NOTHING / 2).flatten().tolist()
            may = [allows(text, ids) if is_there else None for (text, ids), is_there in zip(own, exists, strict=True)]
        scores, parents, tokens = _candidates(logits, running, banned, seen, repetition_penalty, may)
        picked, running = _split(
            [texts[text] for text in live], (scores, parents, tokens), history, beams, step, max_new_tokens, end_ids
        )
        going = [place for place, text in enumerate(live) if not texts[text].is_done]
        if not going or step == max_new_tokens:
            break
        live, running = [live[place] for place in going], running[going]
        offsets = width * torch.tensor(going)[:, None]
        origin = (torch.tensor([picked[place][0] for place in going]) + offsets).flatten()  # [active rows]
        chosen = torch.tensor([picked[place][1] for place in going]).flatten()
        history = history[origin]
        history[:, step - 1] = chosen
        if seen is not None:
            seen.keep(origin)
            seen.add(chosen)
        if len(origin) != len(logits) or not torch.equal(origin, torch.arange(len(origin))):
            decoder.keep(origin, same_texts=len(origin) == len(logits))
        yield
        logits = decoder.step(chosen)
    return [[one for _, one in text.ended[: beams.num_results]] for text in texts]


def _candidates(
    logits: Tensor,
    running: Tensor,
    banned: Tensor,
    seen: Seen | None,
    penalty: float,
    may: Sequence[MayCome | None] | None = None,
) -> tuple[list[list[float]], list[list[int]], list[list[int]]]:
    """The best next tokens of each text over all its beams: scores, beams and tokens, best first.

    Returns twice as many as beams, so that the search continues even if half of them end. logits: float [texts * width,
    vocab]; running: float64 [texts, width]; banned: int64 [tokens], excluded without renormalization; may: per row,
    which tokens are allowed.
    """
    log_probs = logits.log_softmax(dim=-1)  # [texts * width, vocab]
    if len(banned):
        log_probs.index_fill_(1, banned, -torch.inf)
    width = running.shape[1]
    if seen is not None:
        log_probs = penalize(log_probs, seen.ids.to(logits.device), penalty)
    few = min(2 * width, logits.shape[1])
    found = highest(log_probs, few) if may is None else highest_allowed(log_probs, few, may)
    values, ids = found  # [texts * width, few] each
    totals = (values.double().cpu() + running.view(-1, 1)).view(len(running), -1)  # [texts, width * few]
    best, places = totals.topk(min(2 * width, totals.shape[1]))
    tokens = ids.cpu().view(len(running), -1).gather(1, places)
    return best.tolist(), (places // few).tolist(), tokens.tolist()


def _split(
    texts: Sequence[_Text],
    candidates: tuple[list[list[float]], list[list[int]], list[list[int]]],
    history: Tensor,
    beams: Beams,
    step: int,
    max_new_tokens: int,
    end_ids: Collection[int],
) -> tuple[list[tuple[list[int], list[int]]], Tensor]:
    """Adds finished candidates to `texts`; returns beams and tokens of the active ones per text, and their scores,
    float64 [texts, width].
    """
    width = beams.width
    picked, running = [], torch.full((len(texts), width), NOTHING, dtype=torch.float64)
    for number, (text, scores, parents, tokens) in enumerate(zip(texts, *candidates, strict=True)):
        origin: list[int] = []
        chosen: list[int] = []
        for rank, (score, parent, token) in enumerate(zip(scores, parents, tokens, strict=True)):
            is_end = token in end_ids
            if (is_end or step == max_new_tokens) and rank < width and score > NOTHING / 2:
                row = history[number * width + parent, : step - 1].tolist()
                final = score / step**beams.length_penalty
                text.ended.append((final, GeneratedText(row if is_end else [*row, token], final, is_end)))
            if not is_end and len(origin) < width:
                running[number, len(origin)] = score
                origin.append(parent)
                chosen.append(token)
        text.ended = sorted(text.ended, key=lambda one: -one[0])[:width]
        missing = width - len(origin)  # a small vocabulary may have too few tokens: those beams stay unused
        picked.append((origin + [0] * missing, chosen + [0] * missing))
        text.is_done = _is_done(text, float(running[number, 0]), beams, step)
    return picked, running


def _is_done(text: _Text, best_running: float, beams: Beams, step: int) -> bool:
    """Whether no active beam can become one of the best, by its score at the current length."""
    if len(text.ended) < beams.width:
        return best_running <= NOTHING / 2
    return beams.early_stopping or best_running / step**beams.length_penalty <= text.ended[-1][0]
