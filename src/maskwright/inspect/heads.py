"""Attention head patterns (Clark et al. 2019, section 3).

The score is the mean attention to the key tokens of a pattern, over the query tokens that it applies to. The baseline
is uniform attention over all visible tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError
from ..core.registry import unknown_name
from .attention import AttentionMap
from .flow import flow, rollout
from .tokens import Tokens

PatternMask = np.ndarray  # bool [queries, keys]: the keys of a pattern for each query


@dataclass(frozen=True)
class HeadScore:
    """Score of one head.

    layer, head: numbers from 1; score: fraction of attention that follows the pattern; even: score of uniform
    attention.
    """

    layer: int
    head: int
    score: float
    even: float


@dataclass(frozen=True, eq=False)
class PatternScores:
    """Result of a pattern search.

    pattern: its name, or "it -> animal"; meaning: description of the attended tokens; num_tokens: query tokens that it
    applies to; heads: all heads, best first; scores: float64 [layers, heads].
    """

    pattern: str
    meaning: str
    num_tokens: int
    heads: tuple[HeadScore, ...]
    scores: np.ndarray

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return {"pattern", "meaning", "tokens", "heads": [{"layer", "head", "score", "even"}]}, `top` heads."""
        heads = [vars(one) for one in self.heads[:top]]
        return {"pattern": self.pattern, "meaning": self.meaning, "tokens": self.num_tokens, "heads": heads}


def find_heads(map: AttentionMap, pattern: str) -> PatternScores:
    """Rank the heads by one of PATTERNS, best first.

    Raises ConfigError for another name, and InputError if the pattern applies to no token of the text.
    """
    if pattern not in PATTERNS:
        raise ConfigError(unknown_name("attention pattern", pattern, list(PATTERNS)))
    if (pattern == "diagonal") != (map.kind == "cross"):
        fits = "diagonal" if map.kind == "cross" else ", ".join(name for name in PATTERNS if name != "diagonal")
        raise InputError(f"The pattern '{pattern}' does not apply to {map.kind} attention; use {fits}, or words.")
    mask = _RULES[pattern][1](map)
    if map.is_causal:
        mask = np.tril(mask)
    return _scored(map, pattern, PATTERNS[pattern], mask)


def find_word_heads(map: AttentionMap, word: str, other: str) -> PatternScores:
    """Rank the heads by the attention from `word` to `other`, over all occurrences, best first.

    Raises InputError for a word that is not in the text.
    """
    mask = np.zeros(map.weights.shape[2:], dtype=bool)
    rows = sorted({index for place in map.queries.find(word) for index in place})
    columns = sorted({index for place in map.keys.find(other) for index in place})
    mask[np.ix_(rows, columns)] = True
    return _scored(map, f"{word} -> {other}", f"from '{word}' to '{other}'", mask)


def patterns_of(map: AttentionMap) -> list[PatternScores]:
    """Score every pattern that applies to the text."""
    found = []
    for name, (meaning, rule) in _RULES.items():
        if (name == "diagonal") == (map.kind == "cross"):
            mask = np.tril(rule(map)) if map.is_causal else rule(map)
            if mask.any():
                found.append(_scored(map, name, meaning, mask))
    return found


def _scored(map: AttentionMap, pattern: str, meaning: str, mask: PatternMask) -> PatternScores:
    """Score a pattern. mask: bool [queries, keys]."""
    rows = np.flatnonzero(mask.any(axis=1))
    if not len(rows):
        raise InputError(f"The pattern '{pattern}' ({meaning}) applies to no token of this text.")
    fitting = np.where(mask, map.weights, 0)[:, :, rows].sum(axis=-1, dtype=np.float64)  # [layers, heads, rows]
    visible = np.tri(len(map.queries)) if map.is_causal else np.ones(map.weights.shape[2:])
    evenly = visible / visible.sum(axis=1, keepdims=True)  # [queries, keys]
    even = float(np.where(mask, evenly, 0)[rows].sum(axis=-1).mean())
    scores = fitting.mean(axis=-1)  # [layers, heads]
    order = np.argsort(-scores, axis=None, kind="stable")
    heads = tuple(
        HeadScore(map.layers[layer], map.heads[head], float(scores[layer, head]), even)
        for layer, head in zip(*np.unravel_index(order, scores.shape), strict=True)
    )
    return PatternScores(pattern, meaning, len(rows), heads, scores)


# -- patterns: bool [queries, keys] for a map; special tokens are excluded as queries --------------------------------


def _from_words(map: AttentionMap, mask: PatternMask) -> PatternMask:
    own = ~np.array(map.queries.is_special)
    result: PatternMask = mask & own[:, None] if own.any() else mask
    return result


def _shifted(step: int) -> Callable[[AttentionMap], PatternMask]:
    return lambda map: _from_words(map, np.eye(len(map.queries), k=step, dtype=bool))


def _first(map: AttentionMap) -> PatternMask:
    mask = np.zeros((len(map.queries), len(map.keys)), dtype=bool)
    mask[1:, 0] = True
    return _from_words(map, mask)


def _columns(test: Callable[[Tokens], np.ndarray]) -> Callable[[AttentionMap], PatternMask]:
    return lambda map: _from_words(map, np.broadcast_to(test(map.keys), map.weights.shape[2:]).copy())


def _punctuation(tokens: Tokens) -> np.ndarray:
    def is_mark(label: str) -> bool:
        bare = label.strip("·▁").removesuffix("</w>")
        return bool(bare) and all(unicodedata.category(letter)[0] in "PS" for letter in bare)

    pairs = zip(tokens.labels, tokens.is_special, strict=True)
    return np.array([not special and is_mark(label) for label, special in pairs])


def _equal(values: tuple[Any, ...]) -> PatternMask:
    """Mark other positions with the same value: bool [tokens, tokens]."""
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(value, len(known)) for value in values])
    result: PatternMask = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    return result


def _same_word(map: AttentionMap) -> PatternMask:
    pairs = zip(map.queries.texts, map.queries.words, strict=True)
    keys = tuple(index if text is None else (text, word) for index, (text, word) in enumerate(pairs))
    return _from_words(map, _equal(keys))


def _other_text(map: AttentionMap) -> PatternMask:
    texts = np.array([-1 if text is None else text for text in map.queries.texts])
    result: PatternMask = (texts[:, None] + texts == 1) & (texts[:, None] >= 0) & (texts >= 0)
    return result


def _diagonal(map: AttentionMap) -> PatternMask:
    queries, keys = map.weights.shape[2:]
    mask = np.zeros((queries, keys), dtype=bool)
    mask[np.arange(queries), np.rint(np.linspace(0, keys - 1, queries)).astype(int)] = True
    return mask


_RULES: dict[str, tuple[str, Callable[[AttentionMap], PatternMask]]] = {  # the attended keys in words, and as a mask
    "previous token": ("the preceding token", _shifted(-1)),
    "next token": ("the following token", _shifted(1)),
    "same token": ("other occurrences of the same token", lambda map: _from_words(map, _equal(map.queries.ids))),
    "same word": ("other subword tokens of the same word", _same_word),
    "first token": ("the first token of the sequence", _first),
    "separator": (
        "special tokens after the first one: [SEP], </s>",
        _columns(lambda tokens: np.array([False, *tokens.is_special[1:]])),
    ),
    "itself": ("the token itself", _shifted(0)),
    "punctuation": ("punctuation", _columns(_punctuation)),
    "other text": ("the other text of a pair", _other_text),
    "diagonal": ("the token at the same relative position (cross-attention)", _diagonal),
}
PATTERNS = {name: meaning for name, (meaning, _) in _RULES.items()}


# -- Results of inspect queries: head search, rollout and flow of a word, attention tables ---------------------------


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
