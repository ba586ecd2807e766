"""Distances in a dependency tree instead of in the text (after Wang et al. 2019), from a file of parses.

Two words are as far apart as there are arcs on the way between them, negative where the key stands to the left. A
network with `positions` "relative_key" or its like takes them in place of linear distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..text.encoding import Encoding
from ..text.files import read_lines
from ..text.tokenizer import Tokenizer
from .batch import Batch

FAR = 1 << 20  # between a special token, which stands in no tree, and any other: beyond every distance that is learned
_FORM, _HEAD, _COLUMNS = 1, 6, 10


class Parse(NamedTuple):
    """A sentence: its words, and for each the number of its head, from 1; 0 is the root's."""

    words: list[str]
    heads: list[int]


def read_parses(path: str | Path) -> Iterator[Parse]:
    """The sentences of a CoNLL-U file, packed or not; spans of words and empty words are passed over.

    Raises InputError naming the line that is no word of a parse, or that ends a sentence which is no tree.
    """
    for is_blank, lines in groupby(read_lines(path), key=lambda line: not (line.fault or line.text.strip())):
        parse = Parse([], [])
        for line in () if is_blank else lines:
            cells = line.text.split("\t")
            if not line.fault and line.text.startswith("#"):
                continue
            if line.fault or len(cells) != _COLUMNS:
                raise InputError(f"{path}:{line.number}: {line.fault or 'no ten columns of CoNLL-U'}.")
            if cells[0].isdecimal():  # not 3-4 and 8.1, which stand for others
                if not cells[_HEAD].isdecimal():
                    raise InputError(f"{path}:{line.number}: the head is '{cells[_HEAD]}', and no number.")
                parse.words.append(cells[_FORM])
                parse.heads.append(int(cells[_HEAD]))
        if parse.words:
            try:
                tree_distances(parse.heads)
            except ValueError as error:
                raise InputError(f"{path}:{line.number}: {error}.") from None
            yield parse


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Arcs between each two words, negative where the second stands to the left: int64 [words, words].

    heads: as in `Parse`. Raises ValueError when they make no tree with one root.
    """
    under: list[list[int]] = [[] for _ in range(max([len(heads), *heads]) + 1)]
    for word, head in enumerate(heads):
        under[head].append(word)
    arcs = np.zeros((len(heads), len(heads)), dtype=np.int64)
    reached = list(under[0])
    for word in reached:  # grows while it is walked: heads come before what hangs on them
        for child in under[word + 1]:
            arcs[child, reached] = arcs[reached, child] = arcs[word, reached] + 1
            arcs[child, child] = 0
            reached.append(child)
    if len(under[0]) != 1 or len(reached) != len(heads):
        raise ValueError("the heads make no tree with one root")
    place = np.arange(len(heads))
    return arcs * np.sign(place - place[:, None])


def parsed_batch(tokenizer: Tokenizer, parses: Sequence[Parse], max_length: int | None = None) -> Batch:
    """A pack of the sentences, words joined with spaces, whose tokens are as far apart as their words in the tree.

    max_length: tokens of a sentence, special ones included; what is beyond is cut.
    """
    encodings = tokenizer.encode_batch([" ".join(parse.words) for parse in parses], max_length)
    batch = Batch.from_sequences([encoding.ids for encoding in encodings])
    return replace(batch, distances=tuple(map(_token_distances, parses, encodings)))


def _token_distances(parse: Parse, encoding: Encoding) -> Tensor:
    """From words to tokens: int64 [tokens, tokens]. Pieces of one word are 0 apart."""
    # A word begins with the space before it, because some pieces do.
    starts = np.cumsum([0, *(len(word) + 1 for word in parse.words[:-1])]) - 1
    words = np.searchsorted(starts, [end - 1 for _, end in encoding.offsets], side="right") - 1
    distances = tree_distances(parse.heads)[np.ix_(words, words)]
    special, place = np.array(encoding.special_tokens_mask, dtype=bool), np.arange(len(words))
    is_far = special[:, None] | special[None, :]
    return torch.from_numpy(np.where(is_far, FAR * np.sign(place - place[:, None]), distances))
