"""A call of the library in three steps: prepare (tokenize), compute (run the model), finish (decode the outputs).

The library runs all three at once. A server prepares each request by itself, computes the sequences of several requests
in one pack, and finishes each request by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from ..core.errors import InputError
from ..tasks.examples import Examples, Forward, launch, rows_of
from ..text.readers.inputs import Column, Text, is_table, split_pairs, texts_of_table
from ..text.tokenizers.encoding import TextCounts

# -- Prefetching: tokenizes the next texts in a thread while the model computes --------------------------------------
#
# The tokenizer and torch kernels release the GIL. At most two items are in memory: the current one and the next one.


Item = TypeVar("Item")
_END = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the same items in the same order. An exception is raised when its item is due."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="maskwright-ahead") as pool:
        waiting = pool.submit(next, source, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, source, _END)
            yield item  # type: ignore[misc]  # not the end


Result = TypeVar("Result")


@dataclass(frozen=True)
class Prepared(Generic[Result]):
    """Tokenized texts, what the model computes for them, and how its outputs become the result.

    examples: the sequences; counts: truncated and unknown tokens of these texts only; finish: outputs of `forward` for
    each sequence, in order -> result.
    """

    forward: Forward
    examples: Examples
    counts: TextCounts
    finish: Callable[[Sequence[Any]], Result]

    def run(self, batch_tokens: int | None = None) -> Result:
        """Compute and finish here, in packs of at most `batch_tokens` tokens."""
        return self.launch(batch_tokens)()

    def launch(self, batch_tokens: int | None = None) -> Callable[[], Result]:
        """Start to compute; the function that is returned waits and finishes."""
        wait = launch(self.forward, self.examples, batch_tokens)
        return lambda: self.finish(wait())


class Streams:
    """`stream` of a class with `predict`."""

    predict: Callable[..., Any]

    def stream(self, inputs: Iterable[Any], block: int = 64, **settings: Any) -> Iterator[tuple[Any, Any]]:
        """Yield inputs with their results, in order, computed `block` at a time; settings as of `predict`."""
        source = iter(inputs)
        while items := list(islice(source, block)):
            yield from zip(items, self.predict(items, **settings), strict=True)


# -- Converts texts from lists, numpy arrays, and pandas or polars columns and frames to lists -----------------------


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


def as_rows(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows that are given, and texts or pairs as rows, as they come."""
    for number, item in enumerate(items, start=1):
        yield replace(rows_of([item])[0], line=number) if isinstance(item, (str, tuple, list)) else item


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
