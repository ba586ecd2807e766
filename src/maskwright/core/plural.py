"""Counts in sentences that people read: "1 row is", "2,000 rows are"."""

from __future__ import annotations


def plural(count: int, one: str, many: str | None = None) -> str:
    """The count and its words: `one` for 1, else `many` (None: `one` with an s).

    The words may hold the verb too, as in plural(count, "row is", "rows are").
    """
    words = f"{one}s" if many is None else many
    return f"{count:,} {one if count == 1 else words}"
