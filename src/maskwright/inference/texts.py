"""What people hold their texts in, as a list: lists, numpy arrays, columns and frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..core.errors import InputError
from ..text.inputs import Text, split_pairs


def as_texts(texts: Any) -> list[Text]:
    """Texts, or (text, second text) pairs, as a list of str or of tuples.

    texts: an iterable of str or of pairs, a numpy array [texts], [texts, 1] or [texts, 2], a pandas or polars column,
    or a frame of one or two columns. Raises InputError naming the first item that is no text.
    """
    if isinstance(texts, (str, bytes, dict)) or not isinstance(texts, Iterable):
        raise InputError(f"Texts are expected as a list or a column, not as {type(texts).__name__}.")
    if getattr(texts, "ndim", 1) == 2 or hasattr(texts, "columns"):
        texts = _rows(texts)
    elif hasattr(texts, "to_list"):
        texts = texts.to_list()
    firsts, seconds = split_pairs(texts)
    for index, pair in enumerate(zip(firsts, seconds, strict=True)):
        for text in pair:
            if text is not None and not isinstance(text, str):
                raise InputError(f"Item {index} holds {type(text).__name__} ({text!r:.40}), not text.")
    return [
        str(first) if second is None else (str(first), str(second))
        for first, second in zip(firsts, seconds, strict=True)
    ]


def text_blocks(texts: Iterable[Text], num_texts: int, num_characters: int) -> Iterator[list[Text]]:
    """Cut a stream into lists of at most `num_texts` texts; one that reaches `num_characters` ends there."""
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


def _rows(table: Any) -> list[Any]:
    """The rows of a frame or matrix: texts where it has one column, tuples where it has two."""
    matrix = table.to_numpy() if hasattr(table, "to_numpy") else table
    width = matrix.shape[1]
    if width not in (1, 2):
        raise InputError(f"A table of texts has one column, or two for pairs; this one has {width}.")
    return [row[0] if width == 1 else tuple(row) for row in matrix.tolist()]
