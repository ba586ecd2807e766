"""What a person asked of a text, answered: heads that were searched for, what moved, where one token's flow ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from .attention import AttentionMap
from .flow import flow, rollout
from .heads import PATTERNS, Found, find_heads, find_word_heads, patterns_of

ARROW = "->"


def search(map: AttentionMap, asked: Sequence[str]) -> list[Found]:
    """Heads for each of `asked`: a name of PATTERNS, or "it -> animal"; none for every pattern that fits the text.

    Raises ConfigError and InputError as `find_heads` and `find_word_heads` do.
    """
    if not asked:
        return patterns_of(map)
    found = []
    for one in asked:
        if one not in PATTERNS and ARROW in one:
            word, _, other = (part.strip() for part in one.partition(ARROW))
            found.append(find_word_heads(map, word, other))
        else:
            found.append(find_heads(map, one))
    return found


def through(map: AttentionMap, word: str) -> dict[str, Any]:
    """Where a word's vector at the top comes from, by rollout and by flow: {"token", "layer", "inputs": [...]}.

    Of a word of several pieces and places, the mean. Raises InputError for a word that is not in the text.
    """
    if map.kind == "cross":
        raise InputError("Rollout and flow follow a token through its own text: take --kind encoder or decoder.")
    own = sorted({index for place in map.queries.find(word) for index in place})
    shares = rollout(map)[-1][own].mean(axis=0)
    pipes = flow(map, own).mean(axis=0)
    inputs = [
        {"token": label, "rollout": float(share), "flow": float(pipe)}
        for label, share, pipe in zip(map.keys.labels, shares, pipes, strict=True)
    ]
    return {"token": word, "layer": map.layers[-1], "inputs": inputs}


def attention_rows(map: AttentionMap, layer: int, head: int) -> tuple[list[str], list[list[str]]]:
    """A head as a table: its columns, and for each query its label, its weights to two digits, and their sum.

    layer, head: numbers from 1.
    """
    weights = map.of(layer, head)
    rows = [
        [label, *(f"{weight:.2f}" for weight in row), f"{np.sum(row, dtype=np.float64):.2f}"]
        for label, row in zip(map.queries.labels, weights, strict=True)
    ]
    return ["", *map.keys.labels, "sum"], rows


def names_apart(name: str, other: str) -> tuple[str, str]:
    """Names of two models for people: the last parts of their paths that differ, and what stands behind them."""
    first, second = Path(name).parts or (name,), Path(other).parts or (other,)
    for count in range(1, max(len(first), len(second)) + 1):
        if first[-count:] != second[-count:]:
            return "/".join(first[-count:]), "/".join(second[-count:])
    return name, other
