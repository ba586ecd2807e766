"""Making the next item while this one is used: texts become tokens in a thread while the model computes.

The tokenizer releases Python's lock, and so do torch's kernels. At most two items are held: the one that is used and
the one that is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items in the same order. What making one raises is raised when its turn has come."""
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="maskwright-ahead") as pool:
        waiting = pool.submit(next, source, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, source, _END)
            yield item  # type: ignore[misc]  # not the end
