"""Two language models in one: each token is guessed from those before it, and from those after it.

Peters et al. 2018, section 3.1: the sum of the log likelihoods of both directions. Each direction reads alone, so
neither sees what it has to guess; the word table and the decoder are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from .causal import NextTokenPrediction
from .outcome import Outcome
from .pretraining import MaskedLanguageModelling, Tokens
from .segments import Example


class BidirectionalTokenPrediction(NextTokenPrediction):
    """Guess every token at the token before it and at the token after it, in a network of two directions apart."""

    name: ClassVar[str] = "bilm"
    head: ClassVar[str] = "bilm"
    parts: ClassVar[tuple[str, ...]] = ("clm", "backward")
    network_settings: ClassVar[dict[str, Any]] = {"attention": "full", "separate_directions": True}

    @classmethod
    def suited(cls, network: ModelConfig, *, carries: bool) -> type[MaskedLanguageModelling]:
        """What stands behind a text cannot be carried to it, so every example is read anew."""
        return cls

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first. Labels: "clm_positions" and "clm" as for next tokens, and "backward_positions"
        and "backward", where a token is guessed from those after it.
        """
        batch = super().batch(documents, examples, rng)
        ids = batch.input_ids
        ordinary = ~torch.from_numpy(self.recipe.masker.is_special)[ids]  # [tokens]
        ordinary[batch.last_tokens] = False
        guessed = ordinary.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(backward_positions=guessed + 1, backward=ids[guessed])

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of each direction."""
        network = self.kept(model)
        left, right = network.encode(batch).hidden.chunk(2, dim=-1)  # [tokens, hidden / 2] each
        losses, correct = {}, {}
        for part, vectors in (("clm", left), ("backward", right)):
            losses[part], correct[part] = network.mlm_loss(
                vectors[batch.labels[f"{part}_positions"]], batch.labels[part]
            )
        return Outcome(losses, self.counts(batch), correct)
