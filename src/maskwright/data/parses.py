"""Dependency tree distances as relative positions (after Wang et al. 2019), from CoNLL-U files.

The distance of two words is the number of arcs between them, negative if the key is on the left. Networks with
`positions` "relative_key" and its variants use it instead of linear distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..text.readers.tagged import read_tagged
from ..text.tokenizers.encoding import Encoding
from ..text.tokenizers.tokenizer import Tokenizer
from .batch import Batch

FAR = 1 << 20  # distance of special tokens, which are not in the tree: beyond every learned distance


class Parse(NamedTuple):
    """A sentence: its words, and the number of each word's head, from 1; 0 for the root."""

    words: list[str]
    heads: list[int]


def read_parses(path: str | Path) -> Iterator[Parse]:
    """Yields the sentences of a CoNLL-U file, as `text.readers.tagged` reads them.

    Raises RowErrors for lines that are no words, InputError with the line of a head that is not a number, or at which a
    sentence without a valid tree ends.
    """
    for row in read_tagged(path, columns={"tag": "HEAD"}).rows:
        heads = row.tags or ()
        for word, head in enumerate(heads):
            if not head.isdecimal():
                raise InputError(f"{path}:{row.line_of(word)}: the head '{head}' is not a number.")
        parse = Parse(list(row.words), list(map(int, heads)))
        try:
            tree_distances(parse.heads)
        except ValueError as error:
            raise InputError(f"{path}:{row.lines[-1]}: {error}.") from None
        yield parse


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Returns the number of arcs between words, negative if the second is on the left: int64 [words, words].

    heads: see `Parse`. Raises ValueError if they are not a tree with one root.
    """
    under: list[list[int]] = [[] for _ in range(max([len(heads), *heads]) + 1)]
    for word, head in enumerate(heads):
        under[head].append(word)
    arcs = np.zeros((len(heads), len(heads)), dtype=np.int64)
    reached = list(under[0])
    for word in reached:  # extended in the loop: heads come before their dependents
        for child in under[word + 1]:
            arcs[child, reached] = arcs[reached, child] = arcs[word, reached] + 1
            arcs[child, child] = 0
            reached.append(child)
    if len(under[0]) != 1 or len(reached) != len(heads):
        raise ValueError("the heads are not a tree with one root")
    place = np.arange(len(heads))
    signed: np.ndarray = arcs * np.sign(place - place[:, None])
    return signed


def parsed_batch(tokenizer: Tokenizer, parses: Sequence[Parse], max_length: int | None = None) -> Batch:
    """Packs the sentences, words joined with spaces, with the tree distances of their tokens.

    max_length: maximum tokens of a sentence, including special tokens; longer ones are truncated.
    """
    encodings = tokenizer.encode_batch([" ".join(parse.words) for parse in parses], max_length)
    batch = Batch.from_sequences([encoding.ids for encoding in encodings])
    return replace(batch, distances=tuple(map(_token_distances, parses, encodings)))


def _token_distances(parse: Parse, encoding: Encoding) -> Tensor:
    """Expands word distances to tokens: int64 [tokens, tokens]. Subword tokens of one word have distance 0."""
    # A word starts at the space before it, because some tokens include it.
    starts = np.cumsum([0, *(len(word) + 1 for word in parse.words[:-1])]) - 1
    words = np.searchsorted(starts, [end - 1 for _, end in encoding.offsets], side="right") - 1
    distances = tree_distances(parse.heads)[np.ix_(words, words)]
    special, place = np.array(encoding.special_tokens_mask, dtype=bool), np.arange(len(words))
    is_far = special[:, None] | special[None, :]
    return torch.from_numpy(np.where(is_far, FAR * np.sign(place - place[:, None]), distances))
