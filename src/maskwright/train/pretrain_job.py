"""Pre-training as a job for the loop: batches by step from token shards, and scores on held-out text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import InputError
from ..data.batch import Batch
from ..data.shards import TokenShards
from ..models.model import Model
from ..objectives.outcome import Outcome
from ..objectives.pretraining import MaskedLanguageModelling
from .loop import Window
from .next_step import NextStep

EVALUATION_SEQUENCES = 256

Probe = Callable[[Model], dict[str, float]]


class HeldOut:
    """A fixed set of batches of text that training does not see.

    shards, documents: where the text is; examples and masks are drawn once, from `seed`.
    """

    def __init__(
        self,
        shards: TokenShards,
        documents: np.ndarray,
        objective: MaskedLanguageModelling,
        seed: int,
        size: int,
    ) -> None:
        self.batches = objective.held_out(shards, documents, seed=seed, sequences=size, most=EVALUATION_SEQUENCES)
        if not self.batches:
            raise InputError("The held-out text gives no example: its documents are too short for this objective.")
        self.objective = objective
        self.tokens = sum(batch.num_tokens for batch in self.batches)

    @property
    def labels(self) -> np.ndarray:
        """The right ids of all tokens to guess: int64 [labels]."""
        return np.concatenate([batch.labels[self.objective.words].numpy() for batch in self.batches])

    @torch.inference_mode()
    def score(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Mean losses and accuracies of `model`, which is in evaluation mode."""
        window = Window()
        for batch in self.batches:
            window.add(self.objective.outcome(model, batch.to(device)))
        return window.means()


class PretrainJob:
    """Gives the loop its batches. One step is `accumulation` micro-batches of `sequences` examples each.

    model: what the objective trains, a Model or a pair of them; tokenizer: of its text; held_out: None where nothing
    could be held out; probes: further scores of the model, by name.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: MaskedLanguageModelling,
        shards: TokenShards,
        documents: np.ndarray,
        *,
        tokenizer: Any,
        sequences: int,
        accumulation: int,
        seed: int,
        device: torch.device,
        held_out: HeldOut | None = None,
        probes: Sequence[Probe] = (),
    ) -> None:
        self.model, self.objective, self.shards, self.device = model, objective, shards, device
        self.sequences, self.accumulation, self.seed = sequences, accumulation, seed
        self.tokenizer, self.held_out, self.probes = tokenizer, held_out, probes
        self.stream = objective.batches(shards, documents, seed=seed, sequences=sequences, accumulation=accumulation)
        self.place = self.stream.state()  # after the batches that were given, whatever was made ahead
        self._next = NextStep(self._make, ahead=device.type == "cuda")

    def micro_batches(self, step: int) -> list[Batch]:
        """The masked batches of step `step`; moves the stream on."""
        batches, self.place = self._next.take(step)
        return batches

    def _make(self, step: int) -> tuple[list[Batch], dict[str, int]]:
        """The batches of a step, on the device, and where the stream is after them."""
        batches = [self.stream.batch(step, number).to(self.device) for number in range(self.accumulation)]
        return batches, self.stream.state()

    def counts(self, batch: Batch) -> dict[str, int]:
        """Labels of each part."""
        return self.objective.counts(batch)

    def outcome(self, batch: Batch) -> Outcome:
        """Loss and right answers of a batch."""
        return self.objective.outcome(self.model, batch)

    def evaluate(self, step: int) -> dict[str, float]:
        """Scores on held-out text, and of each probe."""
        scores = self.held_out.score(self.model, self.device) if self.held_out is not None else {}
        for probe in self.probes:
            scores |= probe(self.objective.kept(self.model))
        return scores

    def should_stop(self) -> bool:
        """Pre-training runs to its last step."""
        return False

    def state(self) -> dict[str, Any]:
        """Where the stream is."""
        return {"stream": self.place}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a checkpoint was."""
        self._next.forget()
        self.stream.restore(state["stream"])
        self.place = self.stream.state()
