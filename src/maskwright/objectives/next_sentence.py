"""Next sentence prediction (Devlin et al. 2019, section 3.1, task 2): does B follow A?"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..core.errors import InputError
from ..core.progress import note
from .base import Objective
from .masked import MaskedLanguageModeling
from .segments import Example, plan_pairs
from .sentence_pairs import MaskedLanguageModelingOnPairs


class MaskedLanguageModelingAndNextSentence(MaskedLanguageModelingOnPairs):
    """Masked language modeling on pairs: B follows A (0), or is from another document (1)."""

    name: ClassVar[str] = "mlm+nsp"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "nsp")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "nsp"}

    def check(self, num_documents: int) -> None:
        """Raises InputError if there is no other document for random pairs."""
        super().check(num_documents)
        if num_documents < 2:
            raise InputError(
                "Next sentence prediction needs at least two documents, but the corpus contains one: separate "
                "documents with a blank line, or train with --objective mlm."
            )

    def for_documents(self, num_documents: int) -> Objective:
        """Returns masked language modeling for one document, which has no random pairs."""
        if num_documents != 1:
            return self
        note("The text is one document, so next sentences are not scored. Separate documents with blank lines.")
        return MaskedLanguageModeling(self.recipe)

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two segments from the sentence bounds of documents."""
        return plan_pairs(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        """Whether B is from another document."""
        return example.is_random
