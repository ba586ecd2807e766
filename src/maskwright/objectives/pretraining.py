"""Masked language modelling, alone or with a judgement of pairs.

Pairs are judged by next sentence prediction (Devlin et al. 2019, section 3.1) or by sentence order (Lan et al. 2020,
section 3.1). The total loss is the sum of two means: cross-entropy over the selected tokens, and cross-entropy over the
pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch, order_by_length
from ..models.config import ModelConfig
from ..models.model import Model, build
from .audit import AuditedSequence, audit
from .masking import Masker
from .outcome import Outcome
from .segments import Example, plan_ordered, plan_pairs, plan_singles
from .stream import Documents, ExampleBatches, ExampleStream

GENERATOR_SHARE = 0.25
RTD_WEIGHT = 50.0


class Tokens(Protocol):
    """What batches are made of (data.shards.TokenShards)."""

    def document_tokens(self, document: int) -> np.ndarray: ...


class Batches(Protocol):
    """What gives a run its batches, and says where it is."""

    def batch(self, step: int, number: int) -> Batch: ...

    def state(self) -> dict[str, int]: ...

    def restore(self, state: dict[str, int]) -> None: ...


@dataclass(frozen=True)
class Recipe:
    """How text becomes examples. cls_id, sep_id: ids of [CLS] and [SEP]; max_length: tokens, specials included.

    frames: whether what begins a text stands before every part of it, as [CLS] does; generator_share, rtd_weight: of
    replaced-token detection: the generator's width as a share of the discriminator's, and the weight of the
    discriminator's loss.
    """

    cls_id: int
    sep_id: int
    masker: Masker
    max_length: int
    short_share: float = 0.1
    generator_share: float = GENERATOR_SHARE
    rtd_weight: float = RTD_WEIGHT
    frames: bool = True


class MaskedLanguageModelling:
    """Guess the selected tokens of one segment: [CLS] A [SEP].

    name: as in the registry; head: of the model that is left in the end; parts: of the loss; words: the part that
    guesses tokens, labelled at "<words>_positions"; num_special: special tokens of an example; network_settings:
    fields of ModelConfig that it decides; roles: the special tokens that a tokenizer must have for it, those that begin
    and end a text first; writes: whether it trains an encoder-decoder.
    """

    name: ClassVar[str] = "mlm"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("mlm",)
    words: ClassVar[str] = "mlm"
    num_special: ClassVar[int] = 2
    network_settings: ClassVar[dict[str, Any]] = {}
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "mask")
    writes: ClassVar[bool] = False

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.max_tokens = recipe.max_length - self.num_special

    # -- what is trained -------------------------------------------------------------------------------------------

    @classmethod
    def suited(cls, network: ModelConfig, *, carries: bool) -> type[MaskedLanguageModelling]:
        """The form of this objective that a network is trained by. carries: whether one that can remember what stood in
        the batches before does.
        """
        return cls

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """What is trained, its parameters not filled. generator_share: as in Recipe; most have no generator."""
        return Model(config, cls.head)

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """What is trained, at its first step."""
        return build(config, head=self.head, seed=seed)

    def kept(self, model: nn.Module) -> Model:
        """The model that is used afterwards."""
        assert isinstance(model, Model)
        return model

    def guesser(self, model: nn.Module) -> Model:
        """The model that guesses tokens."""
        return self.kept(model)

    # -- examples --------------------------------------------------------------------------------------------------

    def check(self, num_documents: int) -> None:
        """Raise InputError when the corpus is too small for this objective."""
        if num_documents < 1:
            raise InputError("The corpus holds no document: give a text file with at least one line.")

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Examples from the sentence bounds of documents."""
        return plan_singles(bounds, self.max_tokens, self.recipe.short_share, rng)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first, and mask them. Labels: "mlm_positions", "mlm", and of pairs "nsp" or "sop"."""
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
        """The endless batches of training, `accumulation` of `sequences` each in a step.

        chosen: int64 [documents], which of them are used; seed: names their order and all draws.
        """
        return ExampleBatches(self, ExampleStream(documents, chosen, self.plan, seed), sequences)

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        """The same few batches of held-out text every time, of at most `most` sequences; none for text too short."""
        examples = ExampleStream(documents, chosen, self.plan, seed).section(0, 0)[:most]
        return [
            self.batch(documents, examples[start : start + sequences], generator(seed, "held-out masks", start))
            for start in range(0, len(examples), sequences)
        ]

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """A batch for a person to read. token_of: from an id to the token."""
        return audit(batch, token_of, self.recipe.masker.mask_id)

    # -- the loss --------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Labels of each part in a batch."""
        return {part: len(batch.labels[part]) for part in self.parts}

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of a batch; the vocabulary is scored at the selected positions only."""
        network = self.kept(model)
        hidden = network.encode(batch).hidden  # [tokens, hidden]
        loss, right = network.mlm_loss(hidden[batch.labels["mlm_positions"]], batch.labels["mlm"])
        losses, correct = {"mlm": loss}, {"mlm": right}
        for part in self.parts[1:]:
            scores, labels = network.nsp_logits(network.pool(hidden, batch)), batch.labels[part]  # [sequences, 2]
            losses[part] = F.cross_entropy(scores.float(), labels, reduction="sum")
            correct[part] = (scores.detach().argmax(dim=-1) == labels).sum()
        return Outcome(losses, self.counts(batch), correct)

    def _pack(self, documents: Tokens, examples: Sequence[Example]) -> tuple[Batch, np.ndarray]:
        """The examples as they are, shortest first, and their order: int64 [sequences]."""
        rows = [self._row(documents, example) for example in examples]
        order = order_by_length([len(ids) for ids, _ in rows])
        return Batch.from_sequences([rows[index][0] for index in order], [rows[index][1] for index in order]), order

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Ids and segment types of [CLS] A [SEP], or of [CLS] A [SEP] B [SEP]."""
        cls_id, sep_id = [self.recipe.cls_id], [self.recipe.sep_id]
        a = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        if example.b_start == example.b_stop:
            return np.concatenate([cls_id, a, sep_id]), np.zeros(len(a) + 2, dtype=np.int64)
        b = documents.document_tokens(example.b_document)[example.b_start : example.b_stop]
        ids = np.concatenate([cls_id, a, sep_id, b, sep_id])
        return ids, (np.arange(len(ids)) >= len(a) + 2).astype(np.int64)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {}


class MaskedLanguageModellingAndNextSentence(MaskedLanguageModelling):
    """The same on pairs, [CLS] A [SEP] B [SEP], and: does B follow A, or is it from another document?"""

    name: ClassVar[str] = "mlm+nsp"
    head: ClassVar[str] = "pretraining"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "nsp")
    num_special: ClassVar[int] = 3
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "nsp"}

    def check(self, num_documents: int) -> None:
        """Raise InputError when there is no other document to take a random partner from."""
        super().check(num_documents)
        if num_documents < 2:
            raise InputError(
                "Next sentence prediction needs at least two documents, and the corpus holds one: separate documents "
                "by a blank line, or train with --objective mlm."
            )

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Examples of two segments from the sentence bounds of documents."""
        return plan_pairs(bounds, self.max_tokens, self.recipe.short_share, rng)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {"nsp": torch.tensor([int(example.is_random) for example in examples])}


class MaskedLanguageModellingAndSentenceOrder(MaskedLanguageModelling):
    """The same on pairs of neighbours, and: are A and B in their order (0), or swapped (1)?"""

    name: ClassVar[str] = "mlm+sop"
    head: ClassVar[str] = "pretraining"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "sop")
    num_special: ClassVar[int] = 3
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "sop"}

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Examples of two neighbouring segments from the sentence bounds of documents."""
        return plan_ordered(bounds, self.max_tokens, self.recipe.short_share, rng)

    def _pair_labels(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        return {"sop": torch.tensor([int(example.is_swapped) for example in examples])}
