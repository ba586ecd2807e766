"""Sentence order prediction (Lan et al. 2020, section 3.1): are two adjacent segments in order?"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .segments import Example, plan_ordered
from .sentence_pairs import MaskedLanguageModelingOnPairs


class MaskedLanguageModelingAndSentenceOrder(MaskedLanguageModelingOnPairs):
    """Masked language modeling on adjacent segments: in order (0) or swapped (1)."""

    name: ClassVar[str] = "mlm+sop"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "sop")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "sop"}

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two adjacent segments from the sentence bounds of documents."""
        return plan_ordered(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        """Whether the segments are swapped."""
        return example.is_swapped
