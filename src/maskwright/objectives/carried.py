"""Left-to-right language modelling with a memory that goes on from batch to batch (truncated backpropagation).

A stretch of max_length tokens is read, its loss goes back to its beginning and no further, and the next stretch begins
with what was remembered: "infinite memory" at the cost of a short one (Mikolov et al. 2010, section 2).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model, build
from ..nn.recurrent import States
from .causal import NextTokenPrediction
from .lanes import LaneBatches, Lanes
from .outcome import Outcome
from .pretraining import GENERATOR_SHARE
from .stream import Documents


class Carrier(nn.Module):
    """A recurrent language model and what it remembers of each lane.

    The memory travels in checkpoints beside the weights, so that a run goes on exactly; it has no gradient. In
    evaluation mode another memory is used, and training's stays as it was.
    """

    def __init__(self, network: Model) -> None:
        super().__init__()
        self.network = network
        self.memory: Tensor | None = None  # [layers, parts, directions, lanes, size]
        self.trial: Tensor | None = None  # the same while it is scored

    def before(self, batch: Batch) -> tuple[States, ...] | None:
        """What is remembered of the lanes of a batch: nothing, or zeros, where they begin anew."""
        memory = self.memory if self.training else self.trial
        lanes = _lanes_of(batch)
        if memory is None or memory.shape[3] < lanes.stop:  # the first stretch of these lanes
            return None
        own = memory[:, :, :, lanes] * batch.labels["goes_on"][:, None]
        return tuple(tuple(layer) for layer in own)

    def remember(self, batch: Batch, states: tuple[States, ...]) -> None:
        """Keep what is remembered after a batch; how many lanes there are shows in the first one."""
        new = torch.stack([torch.stack(layer) for layer in states]).detach()
        lanes = _lanes_of(batch)
        memory = self.memory if self.training else self.trial
        if memory is None:
            memory = new.new_zeros(*new.shape[:3], lanes.stop, new.shape[4])
        elif memory.shape[3] < lanes.stop:
            more = memory.new_zeros(*memory.shape[:3], lanes.stop - memory.shape[3], memory.shape[4])
            memory = torch.cat([memory, more], dim=3)
        memory[:, :, :, lanes] = new
        if self.training:
            self.memory = memory
        else:
            self.trial = memory

    def get_extra_state(self) -> Tensor:
        """Training's memory, for checkpoints; empty before the first step."""
        return torch.zeros(0) if self.memory is None else self.memory

    def set_extra_state(self, state: Tensor) -> None:
        """Go on with the memory of a checkpoint, float [layers, parts, directions, lanes, size]."""
        device = self.network.word_embeddings.device
        self.memory = state.to(device).clone() if state.numel() else None

    @property
    def num_parameters(self) -> int:
        """Numbers that training can change."""
        return self.network.num_parameters


def _lanes_of(batch: Batch) -> slice:
    """The lanes of a batch, which are neighbours: a slice takes no copy."""
    lanes = batch.labels["lanes"]
    first = int(lanes[0]) if len(lanes) else 0
    return slice(first, first + len(lanes))


class CarriedTokenPrediction(NextTokenPrediction):
    """Guess the next token at every token, remembering what stood in the batches before. It is the objective `clm` of
    recurrent networks.
    """

    is_carried: ClassVar[bool] = True

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """What is trained, its parameters not filled."""
        return Carrier(Model(config, cls.head))

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """What is trained, at its first step."""
        return Carrier(build(config, head=self.head, seed=seed))

    def kept(self, model: nn.Module) -> Model:
        """The model that is used afterwards."""
        return model.network if isinstance(model, Carrier) else super().kept(model)

    def batches(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> LaneBatches:
        """The endless batches of training: one lane for each sequence of a step."""
        return LaneBatches(Lanes(documents, chosen, self.recipe, sequences * accumulation, seed), accumulation)

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        """The same few batches of held-out text every time, of at most `most` sequences, in the order of the text."""
        batches = LaneBatches(Lanes(documents, chosen, self.recipe, sequences, None))
        lanes = batches.lanes
        return [batches.batch(step, 0) for step in range(min(lanes.stretches, max(most // lanes.num_lanes, 1)))]

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of a batch, and what is remembered after it."""
        if not isinstance(model, Carrier) or "lanes" not in batch.labels:
            return super().outcome(model, batch)
        network = model.network
        encoded = network.read_on(batch, model.before(batch))
        assert encoded.states is not None
        model.remember(batch, encoded.states)
        places = batch.labels["clm_positions"]
        vectors = encoded.hidden if len(places) == batch.num_tokens else encoded.hidden[places]  # [labels, hidden]
        loss, right = network.mlm_loss(vectors, batch.labels["clm"])
        return Outcome({"clm": loss}, self.counts(batch), {"clm": right})
