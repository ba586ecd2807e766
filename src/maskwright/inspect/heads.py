"""Heads by what they do: how much of a head's attention goes where a pattern says (Clark et al. 2019, section 3).

A score is the mean, over the tokens that a pattern speaks of, of the attention that goes to the places it names. Beside
it stands what a head would get that spreads its attention evenly over all it may see: only what lies above counts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError
from ..core.registry import unknown_name
from .attention import AttentionMap
from .tokens import Tokens

Looks = np.ndarray  # bool [queries, keys]: where a pattern says that a query looks

PATTERNS = {
    "previous token": "the token before",
    "next token": "the token behind",
    "same token": "other places of the same piece",
    "same word": "the other pieces of its word",
    "first token": "the first token of the sequence",
    "separator": "special tokens behind the first one: [SEP], </s>",
    "itself": "the token itself",
    "punctuation": "punctuation",
    "other text": "the other text of a pair",
    "diagonal": "the token at the same share of the way (cross-attention)",
}


@dataclass(frozen=True)
class HeadScore:
    """One head. layer, head: numbers from 1; score: the part of attention that fits the pattern; even: what even
    attention would give.
    """

    layer: int
    head: int
    score: float
    even: float


@dataclass(frozen=True, eq=False)
class Found:
    """What a search gave. pattern: its name, or "it -> animal"; meaning: where it says that tokens look; num_tokens:
    how many tokens it speaks of; heads: all of them, best first; scores: float64 [layers, heads].
    """

    pattern: str
    meaning: str
    num_tokens: int
    heads: tuple[HeadScore, ...]
    scores: np.ndarray

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """{"pattern", "meaning", "tokens", "heads": [{"layer", "head", "score", "even"}]}, `top` heads (None: all)."""
        heads = [vars(one) for one in self.heads[:top]]
        return {"pattern": self.pattern, "meaning": self.meaning, "tokens": self.num_tokens, "heads": heads}


def find_heads(map: AttentionMap, pattern: str) -> Found:
    """The heads by how well they fit one of PATTERNS, best first.

    Raises ConfigError for another name, and InputError where no token of this text is spoken of.
    """
    if pattern not in PATTERNS:
        raise ConfigError(unknown_name("pattern of attention", pattern, list(PATTERNS)))
    if (pattern == "diagonal") != (map.kind == "cross"):
        fits = "diagonal" if map.kind == "cross" else ", ".join(name for name in PATTERNS if name != "diagonal")
        raise InputError(f"The pattern '{pattern}' says nothing of {map.kind} attention; what does: {fits}, words.")
    looks = _RULES[pattern](map)
    if map.is_causal:
        looks = np.tril(looks)
    return _scored(map, pattern, PATTERNS[pattern], looks)


def find_word_heads(map: AttentionMap, word: str, other: str) -> Found:
    """The heads by how much attention goes from `word` to `other`, with all their pieces and places, best first.

    Raises InputError for a word that is not in the text.
    """
    looks = np.zeros(map.weights.shape[2:], dtype=bool)
    rows = sorted({index for place in map.queries.find(word) for index in place})
    columns = sorted({index for place in map.keys.find(other) for index in place})
    looks[np.ix_(rows, columns)] = True
    return _scored(map, f"{word} -> {other}", f"from '{word}' to '{other}'", looks)


def patterns_of(map: AttentionMap) -> list[Found]:
    """Every pattern that this text can tell of."""
    found = []
    for name, meaning in PATTERNS.items():
        if (name == "diagonal") == (map.kind == "cross"):
            looks = np.tril(_RULES[name](map)) if map.is_causal else _RULES[name](map)
            if looks.any():
                found.append(_scored(map, name, meaning, looks))
    return found


def _scored(map: AttentionMap, pattern: str, meaning: str, looks: Looks) -> Found:
    """looks: bool [queries, keys]."""
    asked = np.flatnonzero(looks.any(axis=1))
    if not len(asked):
        raise InputError(f"No token of this text is spoken of by '{pattern}': {meaning}.")
    fitting = np.where(looks, map.weights, 0)[:, :, asked].sum(axis=-1, dtype=np.float64)  # [layers, heads, asked]
    visible = np.tri(len(map.queries)) if map.is_causal else np.ones(map.weights.shape[2:])
    evenly = visible / visible.sum(axis=1, keepdims=True)  # [queries, keys]
    even = float(np.where(looks, evenly, 0)[asked].sum(axis=-1).mean())
    scores = fitting.mean(axis=-1)  # [layers, heads]
    order = np.argsort(-scores, axis=None, kind="stable")
    heads = tuple(
        HeadScore(map.layers[layer], map.heads[head], float(scores[layer, head]), even)
        for layer, head in zip(*np.unravel_index(order, scores.shape), strict=True)
    )
    return Found(pattern, meaning, len(asked), heads, scores)


# -- the rules: bool [queries, keys] for a map; queries that are special tokens are not asked ------------------------


def _asked(map: AttentionMap, looks: Looks) -> Looks:
    own = ~np.array(map.queries.is_special)
    result: Looks = looks & own[:, None] if own.any() else looks
    return result


def _shifted(step: int) -> Callable[[AttentionMap], Looks]:
    return lambda map: _asked(map, np.eye(len(map.queries), k=step, dtype=bool))


def _first(map: AttentionMap) -> Looks:
    looks = np.zeros((len(map.queries), len(map.keys)), dtype=bool)
    looks[1:, 0] = True
    return _asked(map, looks)


def _columns(test: Callable[[Tokens], np.ndarray]) -> Callable[[AttentionMap], Looks]:
    return lambda map: _asked(map, np.broadcast_to(test(map.keys), map.weights.shape[2:]).copy())


def _separators(tokens: Tokens) -> np.ndarray:
    return np.array([special and index > 0 for index, special in enumerate(tokens.is_special)])


def _punctuation(tokens: Tokens) -> np.ndarray:
    def is_mark(label: str) -> bool:
        bare = label.strip("·▁").removesuffix("</w>")
        return bool(bare) and all(unicodedata.category(letter)[0] in "PS" for letter in bare)

    pairs = zip(tokens.labels, tokens.is_special, strict=True)
    return np.array([not special and is_mark(label) for label, special in pairs])


def _equal(values: tuple[Any, ...]) -> Looks:
    """Other places of the same value: bool [tokens, tokens]."""
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(value, len(known)) for value in values])
    result: Looks = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    return result


def _same_word(map: AttentionMap) -> Looks:
    pairs = zip(map.queries.texts, map.queries.words, strict=True)
    keys = tuple(index if text is None else (text, word) for index, (text, word) in enumerate(pairs))
    return _asked(map, _equal(keys))


def _other_text(map: AttentionMap) -> Looks:
    texts = np.array([-1 if text is None else text for text in map.queries.texts])
    result: Looks = (texts[:, None] + texts == 1) & (texts[:, None] >= 0) & (texts >= 0)
    return result


def _diagonal(map: AttentionMap) -> Looks:
    queries, keys = map.weights.shape[2:]
    looks = np.zeros((queries, keys), dtype=bool)
    looks[np.arange(queries), np.rint(np.linspace(0, keys - 1, queries)).astype(int)] = True
    return looks


_RULES: dict[str, Callable[[AttentionMap], Looks]] = {
    "previous token": _shifted(-1),
    "next token": _shifted(1),
    "same token": lambda map: _asked(map, _equal(map.queries.ids)),
    "same word": _same_word,
    "first token": _first,
    "separator": _columns(_separators),
    "itself": _shifted(0),
    "punctuation": _columns(_punctuation),
    "other text": _other_text,
    "diagonal": _diagonal,
}
