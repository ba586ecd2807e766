"""Pre-training as a job of the training loop: batches from token shards, and scores on held-out text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ...core import registry
from ...core.config import check
from ...core.errors import InputError
from ...data.batch import Batch
from ...data.deal import Deal, everything
from ...data.shards import TextsInMemory, TokenShards
from ...models.config import ModelConfig
from ...models.model import Model
from ...objectives.base import Objective
from ...objectives.masked import MASK_RATE
from ...objectives.outcome import LossSums
from ...objectives.selection import make_recipe
from ...text.tokenizers.tokenizer import Tokenizer
from ..loop import LoopSettings, Window, train
from ..prefetch import Prefetcher

EVALUATION_SEQUENCES = 256

Probe = Callable[[Model], dict[str, float]]


class HeldOut:
    """A fixed set of held-out batches.

    shards, documents: the held-out text; examples and masks are sampled once, from `seed`.
    """

    def __init__(
        self,
        shards: TokenShards,
        documents: np.ndarray,
        objective: Objective,
        seed: int,
        size: int,
    ) -> None:
        self.batches = objective.held_out(shards, documents, seed=seed, sequences=size, most=EVALUATION_SEQUENCES)
        if not self.batches:
            raise InputError("The held-out text has no example: its documents are too short for this objective.")
        self.objective = objective
        self.tokens = sum(batch.num_tokens for batch in self.batches)

    @torch.inference_mode()
    def score(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Mean losses and accuracies of `model`, which must be in evaluation mode."""
        window = Window()
        for batch in self.batches:
            window.add(self.objective.outcome(model, batch.to(device)))
        return window.means()


class PretrainJob:
    """Supplies batches to the loop. One step is `accumulation` micro-batches of `sequences` examples each.

    model: the module that the objective trains, a Model or a pair of them; held_out: None if no text is held out;
    probes: functions that return additional scores of the model.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        shards: TokenShards,
        documents: np.ndarray,
        *,
        tokenizer: Tokenizer,
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
        self.documents = documents
        self._deal: Deal = everything
        self.stream = objective.batches(shards, documents, seed=seed, sequences=sequences, accumulation=accumulation)
        self.position = self.stream.state()  # after the batches in use; the stream itself may be one step ahead
        self._next = Prefetcher(self._make, ahead=device.type == "cuda")

    @property
    def carries_state(self) -> bool:
        """Whether a batch continues the previous one, so only one process can train the model."""
        return self.objective.carries_state

    @property
    def deal(self) -> Deal:
        """Chooses the micro-batches of this process. Changing it discards what was prefetched."""
        return self._deal

    @deal.setter
    def deal(self, deal: Deal) -> None:
        """Choose other micro-batches from the next step on."""
        self._deal = deal
        self._next.forget()
        self.stream.restore(self.position)

    def micro_batches(self, step: int) -> list[Batch]:
        """The masked batches of step `step`; advances the stream."""
        return [batch for _, batch in self.numbered(step)]

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        """The batches of this process, with their numbers in the step; advances the stream."""
        batches, self.position = self._next.take(step)
        return batches

    def fingerprint(self) -> str:
        """A digest of the training documents."""
        chosen = hashlib.sha256(np.ascontiguousarray(self.documents).data).hexdigest()
        return f"{self.shards.num_documents} documents, {self.shards.num_tokens} tokens, {chosen[:16]}"

    def _make(self, step: int) -> tuple[list[tuple[int, Batch]], dict[str, int]]:
        """The batches of a step with their numbers, on the device, and the position of the stream after them."""
        if self._deal is everything:
            found = [(number, self.stream.batch(step, number)) for number in range(self.accumulation)]
        else:
            found = self.stream.dealt(step, self.accumulation, self._deal)
        return [(number, batch.to(self.device)) for number, batch in found], self.stream.state()

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of labels of each part."""
        return self.objective.counts(batch)

    def outcome(self, batch: Batch) -> LossSums:
        """Losses and correct predictions of a batch."""
        return self.objective.outcome(self.model, batch)

    def evaluate(self, step: int) -> dict[str, float]:
        """Scores on held-out text and of each probe."""
        scores = self.held_out.score(self.model, self.device) if self.held_out is not None else {}
        for probe in self.probes:
            scores |= probe(self.objective.final_model(self.model))
        return scores

    def should_stop(self) -> bool:
        """Always False: pre-training does not stop early."""
        return False

    def state(self) -> dict[str, Any]:
        """The position of the stream."""
        return {"stream": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the position of a checkpoint."""
        self._next.forget()
        self.stream.restore(state["stream"])
        self.position = self.stream.state()


# -- Pre-training on a few texts in memory, in seconds and without a run folder: for lessons, notebooks and tests
#
# Objective, batches and loop are those of a full run; there are no files, held-out text or checkpoints.


def pretrain_small(
    documents: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    objective: str = "mlm",
    *,
    steps: int = 200,
    lr: float = 2e-3,
    batch_size: int = 16,
    max_length: int = 32,
    mask_rate: float = MASK_RATE,
    hidden_size: int = 64,
    num_layers: int = 2,
    seed: int = 0,
) -> Model:
    """Train a small network on these documents.

    documents: the sentences of each; tokenizer: with [CLS], [SEP] and [MASK]; objective: "mlm", "mlm+nsp" or "clm";
    max_length: in tokens, special tokens included. No dropout; attention heads of size 16. Raises ConfigError for
    another objective, InputError for text that is too short.
    """
    check(objective in ("mlm", "mlm+nsp", "clm"), f"objective is {objective!r}; here it is mlm, mlm+nsp or clm.")
    texts = TextsInMemory.encode(documents, tokenizer)
    kind = registry.resolve("objective", objective)
    task = kind(make_recipe(kind, tokenizer, max_length, mask_rate=mask_rate))
    task.check(len(texts))
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(hidden_size // 16, 1),
        intermediate_size=2 * hidden_size,
        max_position_embeddings=max_length,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.06,  # at a width of 64 the published 0.02 keeps scores flat for a thousand steps
        **kind.network_settings,
    )
    model = task.network(config, seed)
    job = PretrainJob(
        model,
        task,
        texts,  # type: ignore[arg-type]  # has the interface of shards
        np.arange(len(texts)),
        tokenizer=tokenizer,
        sequences=batch_size,
        accumulation=1,
        seed=seed,
        device=torch.device("cpu"),
    )
    settings = LoopSettings(
        steps, lr, 0.1, "linear", 0.01, 1.0, seed, log_every=steps, checkpoint_every=steps, evaluate_every=steps
    )
    train(job, settings, name="small pre-training")
    kept: Model = task.final_model(model)
    kept.tokenizer = tokenizer
    return kept.eval()
