"""Counts in messages: "1 row is", "2,000 rows are"."""

from __future__ import annotations


def plural(count: int, one: str, many: str | None = None) -> str:
    """Returns the count and its noun: `one` for 1, otherwise `many` (default: `one` with an s).

    The words may include the verb, as in plural(count, "row is", "rows are").
    """
    words = f"{one}s" if many is None else many
    return f"{count:,} {one if count == 1 else words}"
