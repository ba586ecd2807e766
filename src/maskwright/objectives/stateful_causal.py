"""Causal language modeling with hidden state carried across batches (truncated backpropagation through time).

A segment of max_length tokens is processed, gradients are truncated at its start, and the next segment continues with
the final hidden state (Mikolov et al. 2010, section 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.build import build
from ..models.config import ModelConfig
from ..models.model import Model
from ..nn.recurrent import States
from .causal import NextTokenPrediction
from .contiguous_streams import ContiguousStreams, StreamBatches
from .outcome import LossSums
from .replaced_pair import GENERATOR_SHARE
from .stream import Documents

WHOLE_TEXT_SEGMENT = 1024  # tokens; does not affect the results


class StatefulLanguageModel(nn.Module):
    """A recurrent language model with the hidden state of each stream.

    The state is saved in checkpoints with the weights, so that a run resumes exactly; it has no gradient. Evaluation
    mode uses a separate state and leaves that of training unchanged.
    """

    def __init__(self, network: Model) -> None:
        super().__init__()
        self.network = network
        self.memory: Tensor | None = None  # [layers, parts, directions, streams, size]
        self.trial: Tensor | None = None  # the same in evaluation mode

    def before(self, batch: Batch) -> tuple[States, ...] | None:
        """Returns the carried states of the streams of a batch: None, or zeros, where they start from a reset state."""
        memory = self.memory if self.training else self.trial
        streams = _streams_of(batch)
        if memory is None or memory.shape[3] < streams.stop:  # the first segment of these streams
            return None
        own = memory[:, :, :, streams] * batch.labels["goes_on"][:, None]
        return tuple(tuple(layer) for layer in own)

    def store(self, batch: Batch, states: tuple[States, ...]) -> None:
        """Stores the states after a batch; the number of streams is known from the first one."""
        new = torch.stack([torch.stack(layer) for layer in states]).detach()
        streams = _streams_of(batch)
        memory = self.memory if self.training else self.trial
        if memory is None:
            memory = new.new_zeros(*new.shape[:3], streams.stop, new.shape[4])
        elif memory.shape[3] < streams.stop:
            more = memory.new_zeros(*memory.shape[:3], streams.stop - memory.shape[3], memory.shape[4])
            memory = torch.cat([memory, more], dim=3)
        memory[:, :, :, streams] = new
        if self.training:
            self.memory = memory
        else:
            self.trial = memory

    def get_extra_state(self) -> Tensor:
        """Returns the training state for checkpoints; empty before the first step."""
        return torch.zeros(0) if self.memory is None else self.memory

    def set_extra_state(self, state: Tensor) -> None:
        """Restores the state of a checkpoint, float [layers, parts, directions, streams, size]."""
        device = self.network.word_embeddings.device
        self.memory = state.to(device).clone() if state.numel() else None

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return self.network.num_parameters


def _streams_of(batch: Batch) -> slice:
    """The streams of a batch, which are consecutive: a slice needs no copy."""
    streams = batch.labels["streams"]
    first = int(streams[0]) if len(streams) else 0
    return slice(first, first + len(streams))


class StatefulCausalLM(NextTokenPrediction):
    """Next-token prediction with hidden state carried across batches: objective `clm` of recurrent networks."""

    carries_state = True

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """Returns the model to train without initialized parameters."""
        return StatefulLanguageModel(Model(config, cls.head))

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """Returns the initialized model to train."""
        return StatefulLanguageModel(build(config, head=self.head, seed=seed))

    def final_model(self, model: nn.Module) -> Model:
        """Returns the final model, used after training."""
        return model.network if isinstance(model, StatefulLanguageModel) else super().final_model(model)

    def trained(self, model: Model, generator: Model | None) -> nn.Module:
        """Returns the model with a reset state."""
        return StatefulLanguageModel(model).eval()

    def batches(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> StreamBatches:
        """Returns the endless training batches: one stream per sequence of a step."""
        return StreamBatches(
            ContiguousStreams(documents, chosen, self.recipe, sequences * accumulation, seed), accumulation
        )

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        """Returns fixed batches of held-out text with at most `most` sequences, in the order of the text."""
        batches = StreamBatches(ContiguousStreams(documents, chosen, self.recipe, sequences, None))
        streams = batches.streams
        return [
            batches.batch(step, 0) for step in range(min(streams.num_segments, max(most // streams.num_streams, 1)))
        ]

    def whole_text(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int
    ) -> Iterator[tuple[Batch, float]]:
        """Yields the text as one stream of consecutive segments, with the completed fraction of it."""
        recipe = replace(self.recipe, max_length=WHOLE_TEXT_SEGMENT)
        streams = ContiguousStreams(documents, chosen, recipe, 1, None)
        batches = StreamBatches(streams)
        for number in range(streams.num_segments):
            yield batches.batch(number, 0), (number + 1) / streams.num_segments

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss and accuracy of a batch; stores the states after it."""
        if not isinstance(model, StatefulLanguageModel) or "streams" not in batch.labels:
            return super().outcome(model, batch)
        network = model.network
        encoded = network.encode_stateful(batch, model.before(batch))
        assert encoded.states is not None
        model.store(batch, encoded.states)
        places = batch.labels["clm_positions"]
        vectors = encoded.hidden if len(places) == batch.num_tokens else encoded.hidden[places]  # [labels, hidden]
        loss, score = self.scorer.loss(network, vectors, batch.labels["clm"])
        return LossSums({"clm": loss}, self.counts(batch), scores={"clm": score})
