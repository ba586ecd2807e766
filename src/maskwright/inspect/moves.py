"""Attention changes between two texts that differ in a few words, such as the antecedent of "it"."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ..core.errors import InputError
from .attention import AttentionMap
from .tokens import Tokens


@dataclass(frozen=True)
class AttentionChange:
    """Attention to a token in both texts. label: one or both labels; before, after: attention weights."""

    label: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Difference, after minus before."""
        return self.after - self.before


@dataclass(frozen=True)
class Move:
    """Attention change of one head.

    layer, head: numbers from 1; distance: mean total variation distance between the attention distributions, from 0
    (same) to 1 (disjoint); shifts: the tokens whose mean attention changed most.
    """

    layer: int
    head: int
    distance: float
    shifts: tuple[AttentionChange, ...]


@dataclass(frozen=True, eq=False)
class AttentionChanges:
    """Attention changes between two texts.

    word: query word, None for all aligned tokens; pairs: aligned tokens (first, second); moves: all heads, largest
    change first; distances: float64 [layers, heads].
    """

    word: str | None
    pairs: tuple[tuple[int, int], ...]
    moves: tuple[Move, ...]
    distances: np.ndarray

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return {"word", "pairs", "heads": [{"layer", "head", "distance", "shifts": [{"token", ...}]}]}."""
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


def head_moves(
    first: AttentionMap, second: AttentionMap, word: str | None = None, top_shifts: int = 5
) -> AttentionChanges:
    """Compare the attention of each head between two texts.

    first, second: maps of the same kind, layers and heads. Equal tokens and replacements of equal length are aligned;
    an unaligned token has attention 0 in the other text. word: compare only the attention of this word. Raises
    InputError for different maps, a word missing from a text, and texts without common tokens.
    """
    if (first.kind, first.layers, first.heads) != (second.kind, second.layers, second.heads):
        raise InputError("The maps have different kinds, layers or heads: compare maps of one model.")
    queries = align(first.queries, second.queries)
    keys = queries if first.queries is first.keys else align(first.keys, second.keys)
    asked = queries
    if word is not None:
        own = {index for place in first.queries.find(word) for index in place}
        second.queries.find(word)
        asked = tuple(pair for pair in queries if pair[0] in own)
    if not asked:
        raise InputError("The texts have no token in common.")
    before, after = _columns(first, second, asked, keys)  # [layers, heads, asked, union of keys]
    distances = 0.5 * np.abs(after - before).sum(axis=-1).mean(axis=-1)  # [layers, heads]
    labels = _labels(first.keys, second.keys, keys)
    means = before.mean(axis=2), after.mean(axis=2)  # [layers, heads, union]
    order = np.argsort(-distances, axis=None, kind="stable")
    moves = []
    for layer, head in zip(*np.unravel_index(order, distances.shape), strict=True):
        old, new = (mean[layer, head] for mean in means)  # [union]
        most = np.argsort(-np.abs(new - old), kind="stable")[:top_shifts]
        shifts = tuple(AttentionChange(labels[index], float(old[index]), float(new[index])) for index in most)
        moves.append(Move(first.layers[layer], first.heads[head], float(distances[layer, head]), shifts))
    return AttentionChanges(word, asked, tuple(moves), distances)


def align(first: Tokens, second: Tokens) -> tuple[tuple[int, int], ...]:
    """Align equal tokens, and replacements of equal length, of two texts."""
    pairs: list[tuple[int, int]] = []
    blocks = SequenceMatcher(None, first.ids, second.ids, autojunk=False).get_opcodes()
    for name, start, end, other_start, other_end in blocks:
        if name == "equal" or (name == "replace" and end - start == other_end - other_start):
            pairs += zip(range(start, end), range(other_start, other_end), strict=True)
    return tuple(pairs)


def _columns(
    first: AttentionMap, second: AttentionMap, asked: tuple[tuple[int, int], ...], keys: tuple[tuple[int, int], ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the attention rows over the union of keys: aligned, only in the first, only in the second text.

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
    """Return the unaligned tokens."""
    own, other = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    return [i for i in range(len(first)) if i not in own], [i for i in range(len(second)) if i not in other]


def _labels(first: Tokens, second: Tokens, pairs: tuple[tuple[int, int], ...]) -> list[str]:
    alone, other_alone = _alone(first, second, pairs)
    both = [(first.labels[own], second.labels[other]) for own, other in pairs]
    paired = [own if own == other else f"{own} / {other}" for own, other in both]
    return [*paired, *(first.labels[i] for i in alone), *(second.labels[i] for i in other_alone)]
