"""Selects the variant of an objective for a network."""

from __future__ import annotations

from ..models.config import ModelConfig
from .causal import NextTokenPrediction
from .pretraining import MaskedLanguageModeling
from .stateful_causal import StatefulCausalLM


def objective_for(
    objective: type[MaskedLanguageModeling], network: ModelConfig, *, carries: bool
) -> type[MaskedLanguageModeling]:
    """Returns the stateful variant of causal language modeling for recurrent networks, else the objective itself.

    carries: whether recurrent networks carry their hidden state across batches.
    """
    if objective is NextTokenPrediction and carries and network.recurrent is not None:
        return StatefulCausalLM
    return objective
