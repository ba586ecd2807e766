"""Options that take several values after one flag: `--dev a.tsv b.tsv` is `--dev a.tsv --dev b.tsv`.

Click takes one value a flag; a shell gives several where a pattern stands (`--multi-task *.tsv`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from typer.core import TyperCommand

from ..core import registry


class SeveralValues(TyperCommand):
    """A command whose repeatable options also accept several values at once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        options = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        return super().parse_args(ctx, list(spread(args, options, registry.names("task"))))


def spread(words: Sequence[str], options: Collection[str], arguments: Collection[str]) -> Iterator[str]:
    """The words with each of `options` repeated before each of its values.

    Values go on to the next option, or to one of `arguments`: words that the command takes by themselves.
    """
    option, num_values = "", 0  # whose values the next words are, and how many it has so far
    for word in words:
        if word in options:
            option, num_values = word, 0
        elif word.startswith("-") or (num_values and word in arguments):
            option = ""
        elif option:
            if num_values:
                yield option
            num_values += 1
        yield word
