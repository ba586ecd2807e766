"""Results of inspect queries: head search, rollout and flow of a word, attention tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from .attention import AttentionMap
from .flow import flow, rollout
from .heads import PATTERNS, PatternScores, find_heads, find_word_heads, patterns_of

ARROW = "->"


def search(map: AttentionMap, asked: Sequence[str]) -> list[PatternScores]:
    """Search heads for each of `asked`: a name of PATTERNS, or "it -> animal"; empty for every applicable pattern.

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
    """Return attention rollout and flow of a word at the top layer: {"token", "layer", "inputs": [...]}.

    Averages over all tokens and occurrences of the word. Raises InputError for a word that is not in the text.
    """
    if map.kind == "cross":
        raise InputError("Rollout and flow require self-attention: use --kind encoder or decoder.")
    own = sorted({index for place in map.queries.find(word) for index in place})
    shares = rollout(map)[-1][own].mean(axis=0)
    pipes = flow(map, own).mean(axis=0)
    inputs = [
        {"token": label, "rollout": float(share), "flow": float(pipe)}
        for label, share, pipe in zip(map.keys.labels, shares, pipes, strict=True)
    ]
    return {"token": word, "layer": map.layers[-1], "inputs": inputs}


def attention_rows(map: AttentionMap, layer: int, head: int) -> tuple[list[str], list[list[str]]]:
    """Return a head as a table: columns, and for each query its label, weights to two digits, and their sum.

    layer, head: numbers from 1.
    """
    weights = map.of(layer, head)
    rows = [
        [label, *(f"{weight:.2f}" for weight in row), f"{np.sum(row, dtype=np.float64):.2f}"]
        for label, row in zip(map.queries.labels, weights, strict=True)
    ]
    return ["", *map.keys.labels, "sum"], rows


def names_apart(name: str, other: str) -> tuple[str, str]:
    """Return short distinct names of two models: the last path parts that differ."""
    first, second = Path(name).parts or (name,), Path(other).parts or (other,)
    for count in range(1, max(len(first), len(second)) + 1):
        if first[-count:] != second[-count:]:
            return "/".join(first[-count:]), "/".join(second[-count:])
    return name, other
