"""Where the sequences of a pack lie: runs of neighbours of equal length."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """`count` neighbouring sequences of `length` tokens each; the first token stands at `start`."""

    start: int
    count: int  # type: ignore[assignment]  # a field, not tuple.count
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of all its sequences."""
        return self.count * self.length
