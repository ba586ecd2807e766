"""Benchmark texts: from a file, from the Python documentation, or of given lengths."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator
from ..text.formats.files import read_lines
from ..text.tokenizers.tokenizer import Tokenizer

SHORTEST, LONGEST = 20, 600  # characters of a sentence
TAIL = 0.9  # standard deviation of the log length: the 90th percentile is about three times the median


def built_in_texts(count: int) -> list[str]:
    """Return `count` sentences of the Python documentation, in order, repeated if there are too few."""
    from pydoc_data.topics import topics

    whole = "\n\n".join(topics[name] for name in sorted(topics))
    sentences = [
        " ".join(part.split())
        for paragraph in re.split(r"\n\s*\n", whole)
        for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
    ]
    kept = [sentence for sentence in sentences if SHORTEST <= len(sentence) <= LONGEST]
    return [text for text, _ in zip(cycle(kept), range(count), strict=False)]


def texts_of_file(path: Path) -> list[str]:
    """Return the non-blank lines of a text file, compressed or not. Raises InputError if it is not text."""
    return [text for text in (line.text.strip() for line in read_lines(path) if line.fault is None) if text]


def text_of_length(tokenizer: Tokenizer, texts: Iterable[str], length: int) -> str:
    """Build a text of exactly `length` tokens, including special tokens, from the words of the texts.

    Raises InputError if no combination of words has that length.
    """
    words = list(islice((word for text in texts for word in text.split()), length))
    most = bisect_right(range(len(words) + 1), length, key=lambda count: _count(tokenizer, words[:count])) - 1
    chosen = words[: max(most, 0)]
    for filler in dict.fromkeys(words):  # fill up with a word that fits
        while _count(tokenizer, [*chosen, filler]) <= length and _count(tokenizer, chosen) < length:
            chosen.append(filler)
    if _count(tokenizer, chosen) != length:
        raise InputError(f"The texts are too few for one of {length} tokens: pass more with --input.")
    return " ".join(chosen)


def texts_of_length(tokenizer: Tokenizer, texts: Sequence[str], length: int, count: int) -> list[str]:
    """Build `count` different texts of exactly `length` tokens, which start at different words."""
    words = " ".join(texts).split()
    step = max(len(words) // count, 1)
    return [
        text_of_length(tokenizer, [" ".join(words[(start * step) % len(words) :]), *texts], length)
        for start in range(count)
    ]


def long_tailed_texts(tokenizer: Tokenizer, texts: Sequence[str], mean: int, longest: int, count: int) -> list[str]:
    """Build `count` texts whose token lengths follow a log-normal distribution of this mean, clipped at `longest`."""
    draws = generator(0, "long-tailed texts").lognormal(math.log(mean) - TAIL**2 / 2, TAIL, size=count)
    lengths = np.clip(draws.round().astype(int), SHORTEST, longest).tolist()
    words = " ".join(texts).split()
    step = max(len(words) // count, 1)
    return [
        text_of_length(tokenizer, [" ".join(words[number * step :]), *texts], length)
        for number, length in enumerate(lengths)
    ]


def _count(tokenizer: Tokenizer, words: list[str]) -> int:
    return len(tokenizer.encode_ids([" ".join(words)], None)[0][0])
