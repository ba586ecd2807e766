"""Bidirectional language modeling: each token is predicted from the tokens before it, and from those after it.

The loss is the sum of the negative log-likelihoods of both directions (Peters et al. 2018, section 3.1). The directions
are separate, so neither sees its targets; the embedding table and the decoder are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..report import Command
from .causal import NextTokenPrediction
from .cost import TrainedNetwork
from .outcome import LossSums
from .segments import Example
from .stream import Tokens


class BidirectionalTokenPrediction(NextTokenPrediction):
    """Predicts every token from the left and from the right, in a network with separate directions."""

    name: ClassVar[str] = "bilm"
    head: ClassVar[str] = "bilm"
    parts: ClassVar[tuple[str, ...]] = ("clm", "backward")
    network_settings: ClassVar[dict[str, Any]] = {"attention": "full", "separate_directions": True}
    needs: ClassVar[str] = "a recurrent encoder such as elmo-small"

    @classmethod
    def fits(cls, network: ModelConfig) -> bool:
        """Returns whether a network is recurrent; a Transformer has no separate directions."""
        return super().fits(network) and network.recurrent is not None

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        """Returns no commands: the model generates no text."""
        return []

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
        """Empty: the cost of two directions is not estimated."""
        return ()

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first. Labels: "clm_positions" and "clm" for next tokens, "backward_positions" and
        "backward" for previous tokens.
        """
        batch = super().batch(documents, examples, rng)
        ids = batch.input_ids
        ordinary = ~torch.from_numpy(self.recipe.is_special)[ids]  # [tokens]
        ordinary[batch.last_tokens] = False
        targets = ordinary.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(backward_positions=targets + 1, backward=ids[targets])

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss and accuracy of each direction."""
        network = self.final_model(model)
        left, right = network.encode(batch).hidden.chunk(2, dim=-1)  # [tokens, hidden / 2] each
        losses, scores = {}, {}
        for part, vectors in (("clm", left), ("backward", right)):
            losses[part], scores[part] = self.scorer.loss(
                network, vectors[batch.labels[f"{part}_positions"]], batch.labels[part]
            )
        return LossSums(losses, self.counts(batch), scores=scores)
