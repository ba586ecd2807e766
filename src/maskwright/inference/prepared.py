"""A call of the library in three steps: prepare (tokenize), compute (run the model), finish (decode the outputs).

The library runs all three at once. A server prepares each request by itself, computes the sequences of several requests
in one pack, and finishes each request by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from ..tasks.rows.examples import Examples
from ..tasks.rows.forward import Forward, compute
from ..text.tokenizers.encoding import TextCounts

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
    finish: Callable[[Sequence[Tensor]], Result]

    def run(self, batch_tokens: int | None = None) -> Result:
        """Compute and finish here, in packs of at most `batch_tokens` tokens."""
        return self.finish(compute(self.forward, self.examples, batch_tokens))
