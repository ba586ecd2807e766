"""Prefetching: tokenizes the next texts in a thread while the model computes.

The tokenizer and torch kernels release the GIL. At most two items are in memory: the current one and the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
