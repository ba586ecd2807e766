"""Runs: neighboring sequences of equal length in a pack."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """`count` neighboring sequences of `length` tokens each; `start` is the index of the first token."""

    start: int
    count: int  # type: ignore[assignment]  # a field, not tuple.count
    length: int

    @property
    def tokens(self) -> int:
        """Total number of tokens."""
        return self.count * self.length
