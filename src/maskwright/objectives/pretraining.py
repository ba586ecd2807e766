"""BERT's two objectives: masked language modelling, alone or with next sentence prediction (Devlin et al. 2019).

The total loss is the sum of two means: cross-entropy over the selected tokens, and cross-entropy over the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F

from ..core.errors import InputError
from ..data.batch import Batch, order_by_length
from .masking import Masker
from .outcome import Outcome
from .segments import Example, plan_pairs, plan_singles

if TYPE_CHECKING:
    from ..models.model import Model


class Tokens(Protocol):
    """What batches are made of (data.shards.TokenShards)."""

    def document_tokens(self, document: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Recipe:
    """How text becomes examples. cls_id, sep_id: ids of [CLS] and [SEP]; max_length: tokens, specials included."""

    cls_id: int
    sep_id: int
    masker: Masker
    max_length: int
    short_share: float = 0.1


class MaskedLanguageModelling:
    """Guess the selected tokens of one segment: [CLS] A [SEP]."""

    name: ClassVar[str] = "mlm"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("mlm",)
    num_special: ClassVar[int] = 2

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.max_tokens = recipe.max_length - self.num_special

    def check(self, num_documents: int) -> None:
        """Raise InputError when the corpus is too small for this objective."""
        if num_documents < 1:
            raise InputError("The corpus holds no document: give a text file with at least one line.")

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Examples from the sentence bounds of documents."""
        return plan_singles(bounds, self.max_tokens, self.recipe.short_share, rng)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first, and mask them. Labels: "mlm_positions", "mlm", with pairs also "nsp"."""
        rows = [self._row(documents, example) for example in examples]
        order = order_by_length([len(ids) for ids, _ in rows])
        batch = Batch.from_sequences([rows[index][0] for index in order], [rows[index][1] for index in order])
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

    def counts(self, batch: Batch) -> dict[str, int]:
        """Labels of each part in a batch."""
        return {part: len(batch.labels[part]) for part in self.parts}

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Loss and right answers of a batch; the vocabulary is scored at the selected positions only."""
        hidden = model.encode(batch).hidden  # [tokens, hidden]
        logits = {"mlm": model.mlm_logits(hidden[batch.labels["mlm_positions"]])}  # [labels, vocab]
        if "nsp" in self.parts:
            logits["nsp"] = model.nsp_logits(model.pool(hidden, batch))  # [sequences, 2]
        losses, correct = {}, {}
        for part, scores in logits.items():
            labels = batch.labels[part]
            losses[part] = F.cross_entropy(scores.float(), labels, reduction="sum")
            correct[part] = (scores.detach().argmax(dim=-1) == labels).sum()
        return Outcome(losses, self.counts(batch), correct)

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
