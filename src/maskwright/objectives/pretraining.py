"""Masked language modeling, optionally with sentence pair classification.

Pairs use next sentence prediction (Devlin et al. 2019, section 3.1) or sentence order prediction (Lan et al. 2020,
section 3.1). The total loss is the sum of two means: cross-entropy over the masked tokens, and over the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch, order_by_length
from ..models.build import build
from ..models.config import ModelConfig
from ..models.model import Model
from .audit import AuditedSequence, audit
from .masking import Masker
from .outcome import LossSums
from .scores import TokenScorer, score_classes
from .segments import Example, plan_ordered, plan_pairs, plan_singles
from .stream import Documents, ExampleBatches, ExampleStream

GENERATOR_SHARE = 0.25
RTD_WEIGHT = 50.0


class Tokens(Protocol):
    """Source of the tokens of documents (data.shards.TokenShards)."""

    def document_tokens(self, document: int) -> np.ndarray: ...


class Batches(Protocol):
    """Resumable source of training batches."""

    def batch(self, step: int, number: int) -> Batch: ...

    def state(self) -> dict[str, int]: ...

    def restore(self, state: dict[str, int]) -> None: ...


@dataclass(frozen=True)
class Recipe:
    """How text becomes examples.

    Attributes:
        cls_id, sep_id: Ids of [CLS] and [SEP].
        masker: Masks tokens.
        max_length: Maximum sequence length in tokens, including special tokens.
        short_share: Fraction of shorter examples.
        generator_share: Replaced token detection: generator size as a fraction of the discriminator's.
        rtd_weight: Replaced token detection: weight of the discriminator's loss.
        frames: Whether every part of a text starts with the start token, like [CLS].
        token_counts: int64 [vocab], token counts in the training text, for the baselines of scores (None: no baseline).
    """

    cls_id: int
    sep_id: int
    masker: Masker
    max_length: int
    short_share: float = 0.1
    generator_share: float = GENERATOR_SHARE
    rtd_weight: float = RTD_WEIGHT
    frames: bool = True
    token_counts: np.ndarray | None = field(default=None, compare=False)


class MaskedLanguageModeling:
    """Predicts the masked tokens of one segment: [CLS] A [SEP].

    Attributes:
        name: Name in the registry.
        head: Head of the final model.
        parts: Parts of the loss.
        words: The part that predicts tokens, labeled at "<words>_positions".
        num_special: Special tokens per example.
        network_settings: Fields of ModelConfig set by the objective.
        roles: Special tokens required in the tokenizer, those that begin and end a text first.
        writes: Whether it trains an encoder-decoder.
        predicts_special: Whether special tokens are among the labels.
    """

    name: ClassVar[str] = "mlm"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("mlm",)
    words: ClassVar[str] = "mlm"
    num_special: ClassVar[int] = 2
    network_settings: ClassVar[dict[str, Any]] = {}
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "mask")
    writes: ClassVar[bool] = False
    predicts_special: ClassVar[bool] = False

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.max_tokens = recipe.max_length - self.num_special

    # -- models ----------------------------------------------------------------------------------------------------

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """Returns the model to train without initialized parameters. generator_share: see Recipe."""
        return Model(config, cls.head)

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """Returns the initialized model to train."""
        return build(config, head=self.head, seed=seed)

    def final_model(self, model: nn.Module) -> Model:
        """Returns the final model, used after training."""
        assert isinstance(model, Model)
        return model

    def token_predictor(self, model: nn.Module) -> Model:
        """Returns the model that predicts tokens."""
        return self.final_model(model)

    # -- examples --------------------------------------------------------------------------------------------------

    def check(self, num_documents: int) -> None:
        """Raises InputError if the corpus is too small for this objective."""
        if num_documents < 1:
            raise InputError("The corpus contains no document: provide a text file with at least one line.")

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples from the sentence bounds of documents."""
        return plan_singles(bounds, self.max_tokens, self.recipe.short_share, rng)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs and masks examples, shortest first. Labels: "mlm_positions", "mlm", and for pairs "nsp" or "sop"."""
        batch, order = self._pack(documents, examples)
        masked = self.recipe.masker(batch.input_ids.numpy(), np.asarray(batch.lengths), rng)
        labels = {
            "mlm_positions": torch.from_numpy(masked.positions),
            "mlm": torch.from_numpy(masked.labels),
            **self._pair_labels([examples[index] for index in order]),
        }
        return Batch(
            torch.from_numpy(masked.input_ids),
            batch.cu_seqlens,
            batch.position_ids,
            batch.token_type_ids,
            labels,
        )

    def batches(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> Batches:
        """Returns the endless training batches, `accumulation` of `sequences` each per step.

        chosen: int64 [documents], the documents to use; seed: random seed of the order and all samples.
        """
        return ExampleBatches(self, ExampleStream(documents, chosen, self.plan, seed), sequences)

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        """Returns fixed batches of held-out text with at most `most` sequences; empty if the text is too short."""
        examples = ExampleStream(documents, chosen, self.plan, seed).section(0, 0)[:most]
        return [
            self.batch(documents, examples[start : start + sequences], generator(seed, "held-out masks", start))
            for start in range(0, len(examples), sequences)
        ]

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """Returns a human-readable batch. token_of: converts an id to its token."""
        return audit(batch, token_of, self.recipe.masker.mask_id)

    # -- loss ------------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of labels of each part."""
        return {part: len(batch.labels[part]) for part in self.parts}

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss and accuracy of a batch; logits are computed at masked positions only."""
        network = self.final_model(model)
        hidden = network.encode(batch).hidden  # [tokens, hidden]
        loss, score = self.scorer.loss(network, hidden[batch.labels["mlm_positions"]], batch.labels["mlm"])
        losses, scores = {"mlm": loss}, {"mlm": score}
        for part in self.parts[1:]:
            logits, labels = network.nsp_logits(network.pool(hidden, batch)), batch.labels[part]  # [sequences, 2]
            losses[part] = F.cross_entropy(logits.float(), labels, reduction="sum")
            scores[part] = score_classes(logits.detach().argmax(dim=-1), labels)
        return LossSums(losses, self.counts(batch), scores=scores)

    @cached_property
    def scorer(self) -> TokenScorer:
        """Scores predicted tokens."""
        return TokenScorer(self.recipe.masker.is_special, self.recipe.token_counts, self.predicts_special)

    def _pack(self, documents: Tokens, examples: Sequence[Example]) -> tuple[Batch, np.ndarray]:
        """Packs the examples unmasked, shortest first; returns their order: int64 [sequences]."""
        rows = [self._row(documents, example) for example in examples]
        order = order_by_length([len(ids) for ids, _ in rows])
        return Batch.from_sequences([rows[index][0] for index in order], [rows[index][1] for index in order]), order

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Ids and segment ids of [CLS] A [SEP], or of [CLS] A [SEP] B [SEP]."""
        cls_id, sep_id = [self.recipe.cls_id], [self.recipe.sep_id]
        a = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        if example.b_start == example.b_stop:
            return np.concatenate([cls_id, a, sep_id]), np.zeros(len(a) + 2, dtype=np.int64)
        b = documents.document_tokens(example.b_document)[example.b_start : example.b_stop]
        ids = np.concatenate([cls_id, a, sep_id, b, sep_id])
        return ids, (np.arange(len(ids)) >= len(a) + 2).astype(np.int64)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {}


class MaskedLanguageModelingAndNextSentence(MaskedLanguageModeling):
    """Masked language modeling on pairs, [CLS] A [SEP] B [SEP], with next sentence prediction."""

    name: ClassVar[str] = "mlm+nsp"
    head: ClassVar[str] = "pretraining"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "nsp")
    num_special: ClassVar[int] = 3
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "nsp"}

    def check(self, num_documents: int) -> None:
        """Raises InputError if there is no other document for random pairs."""
        super().check(num_documents)
        if num_documents < 2:
            raise InputError(
                "Next sentence prediction needs at least two documents, but the corpus contains one: separate "
                "documents with a blank line, or train with --objective mlm."
            )

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two segments from the sentence bounds of documents."""
        return plan_pairs(bounds, self.max_tokens, self.recipe.short_share, rng)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {"nsp": torch.tensor([int(example.is_random) for example in examples])}


class MaskedLanguageModelingAndSentenceOrder(MaskedLanguageModeling):
    """Masked language modeling on adjacent segments, with sentence order prediction: in order (0) or swapped (1)."""

    name: ClassVar[str] = "mlm+sop"
    head: ClassVar[str] = "pretraining"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "sop")
    num_special: ClassVar[int] = 3
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "sop"}

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two adjacent segments from the sentence bounds of documents."""
        return plan_ordered(bounds, self.max_tokens, self.recipe.short_share, rng)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {"sop": torch.tensor([int(example.is_swapped) for example in examples])}
