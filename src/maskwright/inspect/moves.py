"""Which head moves most between two texts that differ in a word or two: tired or wide, and what "it" looks at."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ..core.errors import InputError
from .attention import AttentionMap
from .tokens import Tokens


@dataclass(frozen=True)
class Shift:
    """Attention to one token of both texts. label: of the token, both where they differ; before, after: the parts of
    attention that it got.
    """

    label: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """After less before."""
        return self.after - self.before


@dataclass(frozen=True)
class Move:
    """One head. layer, head: numbers from 1; distance: mean over the tokens that were asked of the total variation
    between both rows of attention, from 0 (same) to 1 (nothing shared); shifts: the tokens whose attention changed
    most, in the mean over those that were asked.
    """

    layer: int
    head: int
    distance: float
    shifts: tuple[Shift, ...]


@dataclass(frozen=True, eq=False)
class Moves:
    """What changed. word: whose attention was compared, None for all tokens that both texts have; pairs: the tokens
    that stand for each other, (first, second); moves: all heads, the one that moves most first; distances: float64
    [layers, heads].
    """

    word: str | None
    pairs: tuple[tuple[int, int], ...]
    moves: tuple[Move, ...]
    distances: np.ndarray

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """{"word", "pairs", "heads": [{"layer", "head", "distance", "shifts": [{"token", "before", "after"}]}]}."""
        heads = [
            {
                "layer": move.layer,
                "head": move.head,
                "distance": move.distance,
                "shifts": [{"token": one.label, "before": one.before, "after": one.after} for one in move.shifts],
            }
            for move in self.moves[:top]
        ]
        return {"word": self.word, "pairs": [list(pair) for pair in self.pairs], "heads": heads}


def head_moves(first: AttentionMap, second: AttentionMap, word: str | None = None, top_shifts: int = 5) -> Moves:
    """How far each head moves from one text to the other.

    first, second: maps of the same kind, layers and heads. Tokens are paired where the texts agree, and where a
    stretch of equal length was replaced; a token without a partner counts as one that the other text gives nothing.
    word: compare the attention of this word alone. Raises InputError for maps that differ, a word that one text lacks,
    and texts that share nothing.
    """
    if (first.kind, first.layers, first.heads) != (second.kind, second.layers, second.heads):
        raise InputError("The two maps are of different kinds, layers or heads: compare those of one model.")
    queries = align(first.queries, second.queries)
    keys = queries if first.queries is first.keys else align(first.keys, second.keys)
    asked = queries
    if word is not None:
        own = {index for place in first.queries.find(word) for index in place}
        second.queries.find(word)
        asked = tuple(pair for pair in queries if pair[0] in own)
    if not asked:
        raise InputError("The two texts share no token that could be compared.")
    before, after = _columns(first, second, asked, keys)  # [layers, heads, asked, union of keys]
    distances = 0.5 * np.abs(after - before).sum(axis=-1).mean(axis=-1)  # [layers, heads]
    labels = _labels(first.keys, second.keys, keys)
    means = before.mean(axis=2), after.mean(axis=2)  # [layers, heads, union]
    order = np.argsort(-distances, axis=None, kind="stable")
    moves = []
    for layer, head in zip(*np.unravel_index(order, distances.shape), strict=True):
        old, new = (mean[layer, head] for mean in means)  # [union]
        most = np.argsort(-np.abs(new - old), kind="stable")[:top_shifts]
        shifts = tuple(Shift(labels[index], float(old[index]), float(new[index])) for index in most)
        moves.append(Move(first.layers[layer], first.heads[head], float(distances[layer, head]), shifts))
    return Moves(word, asked, tuple(moves), distances)


def align(first: Tokens, second: Tokens) -> tuple[tuple[int, int], ...]:
    """Which token of one text stands for which of the other: those that agree, and replaced ones of equal number."""
    pairs: list[tuple[int, int]] = []
    blocks = SequenceMatcher(None, first.ids, second.ids, autojunk=False).get_opcodes()
    for name, start, end, other_start, other_end in blocks:
        if name == "equal" or (name == "replace" and end - start == other_end - other_start):
            pairs += zip(range(start, end), range(other_start, other_end), strict=True)
    return tuple(pairs)


def _columns(
    first: AttentionMap,
    second: AttentionMap,
    asked: tuple[tuple[int, int], ...],
    keys: tuple[tuple[int, int], ...],
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that were asked, over the keys of both texts: paired ones, those of the first alone, of the second.

    float64 [layers, heads, asked, union] each.
    """
    rows = first.weights[:, :, [own for own, _ in asked]].astype(np.float64)
    others = second.weights[:, :, [other for _, other in asked]].astype(np.float64)
    alone, other_alone = _alone(first.keys, second.keys, keys)
    paired, other_paired = [own for own, _ in keys], [other for _, other in keys]
    nothing = np.zeros((*rows.shape[:3], len(other_alone))), np.zeros((*rows.shape[:3], len(alone)))
    before = np.concatenate([rows[..., paired], rows[..., alone], nothing[0]], axis=-1)
    after = np.concatenate([others[..., other_paired], nothing[1], others[..., other_alone]], axis=-1)
    return before, after


def _alone(first: Tokens, second: Tokens, pairs: tuple[tuple[int, int], ...]) -> tuple[list[int], list[int]]:
    """Tokens without a partner."""
    own, other = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    return [i for i in range(len(first)) if i not in own], [i for i in range(len(second)) if i not in other]


def _labels(first: Tokens, second: Tokens, pairs: tuple[tuple[int, int], ...]) -> list[str]:
    alone, other_alone = _alone(first, second, pairs)
    both = [(first.labels[own], second.labels[other]) for own, other in pairs]
    paired = [own if own == other else f"{own} / {other}" for own, other in both]
    return [*paired, *(first.labels[i] for i in alone), *(second.labels[i] for i in other_alone)]
