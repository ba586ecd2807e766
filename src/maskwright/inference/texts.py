"""Converts texts from lists, numpy arrays, and pandas or polars columns and frames to lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core.errors import InputError
from ..text.readers.inputs import Column, Text, is_table, split_pairs, texts_of_table


def as_texts(texts: Any, columns: Sequence[Column] | None = None) -> list[Text]:
    """Return texts, or (text, second text) pairs, as a list of str or of tuples.

    texts: an iterable of str or of pairs, a numpy array [texts] or [texts, 1], a pandas or polars column, or a frame,
    whose columns are read as in `text.readers.inputs.texts_of_table`. columns: the text, and the second text, of a
    frame or matrix; not needed for a list. Raises InputError with the first item that is not text.
    """
    if isinstance(texts, (str, bytes, dict)) or not isinstance(texts, Iterable):
        raise InputError(f"Pass texts as a list or a column, not as {type(texts).__name__}.")
    if is_table(texts):
        texts = texts_of_table(texts, columns)
    elif hasattr(texts, "to_list"):
        texts = texts.to_list()
    firsts, seconds = split_pairs(texts)
    for index, pair in enumerate(zip(firsts, seconds, strict=True)):
        for text in pair:
            if text is not None and not isinstance(text, str):
                raise InputError(f"Item {index} is {type(text).__name__} ({text!r:.40}), not text.")
    return [
        str(first) if second is None else (str(first), str(second))
        for first, second in zip(firsts, seconds, strict=True)
    ]


def single_texts(texts: Any, what: str) -> list[str]:
    """Return single texts as a list; a str becomes a list of one. what: their name in the message ("Prompts")."""
    found = [texts] if isinstance(texts, str) else as_texts(texts)
    if any(not isinstance(text, str) for text in found):
        raise InputError(f"{what} must be single texts, not pairs.")
    return [str(text) for text in found]


def text_blocks(texts: Iterable[Text], num_texts: int, num_characters: int) -> Iterator[list[Text]]:
    """Split a stream into lists of at most `num_texts` texts, which end once they reach `num_characters`."""
    block: list[Text] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text) if isinstance(text, str) else sum(map(len, text))
        if len(block) == num_texts or characters >= num_characters:
            yield block
            block, characters = [], 0
    if block:
        yield block
