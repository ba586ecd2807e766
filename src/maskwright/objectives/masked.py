"""Masked language modeling (Devlin et al. 2019, section 3.1, task 1): cross-entropy over the masked tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.progress import note
from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model
from ..report import Command, MaskExample
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence, audit, masked_word_examples
from .base import Objective, Recipe
from .fitting import GENERATOR_SHARE, RTD_WEIGHT, TrainedNetwork, TrainedNetworks
from .outcome import LossSums, score_classes
from .segments import Example, plan_ordered, plan_pairs
from .stream import Tokens

# -- Masking for masked language modeling: 15% of the tokens, 80 / 10 / 10 (Devlin et al. 2019, section 3.1) ---------
#
# Masks are sampled when a batch is made (dynamic masking), from a generator keyed by the step: they differ in every
# epoch and are the same after a resume.

MASK_RATE = 0.15
MASK_SHARE = 0.8  # fraction of the selected tokens; the rest is half random tokens, half unchanged
RANDOM_SHARE = 0.1


class Masked(NamedTuple):
    """input_ids: int64 [tokens] with the masks; positions: int64 [labels]; labels: int64 [labels], the original ids."""

    input_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray


def special_tokens(special_ids: Iterable[int], vocab_size: int) -> np.ndarray:
    """Returns which tokens of a vocabulary are special: bool [vocab]."""
    is_special = np.zeros(vocab_size, dtype=bool)
    is_special[[index for index in special_ids if 0 <= index < vocab_size]] = True
    return is_special


class Masker:
    """Selects tokens with the probability `rate` and replaces them, special ones never.

    continues_word: bool [vocab], tokens that continue a word, for whole-word masking (all tokens of a selected word are
    selected), else None.
    """

    def __init__(
        self,
        mask_id: int,
        special_ids: frozenset[int],
        vocab_size: int,
        rate: float = MASK_RATE,
        continues_word: np.ndarray | None = None,
    ) -> None:
        self.mask_id = mask_id
        self.rate = rate
        self.continues_word = continues_word
        self.is_special = special_tokens(special_ids, vocab_size)
        self.ordinary_ids = np.flatnonzero(~self.is_special)

    def __call__(self, input_ids: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Masked:
        """Masks a pack, int64 [tokens], of sequences with `lengths`: each with an ordinary token gets a label."""
        positions = self.select(input_ids, lengths, rng)
        labels = input_ids[positions]
        fate = rng.random(len(positions))
        random_ids = self.ordinary_ids[rng.integers(len(self.ordinary_ids), size=len(positions))]
        replaced = np.where(fate < MASK_SHARE, self.mask_id, labels)
        replaced = np.where((fate >= MASK_SHARE) & (fate < MASK_SHARE + RANDOM_SHARE), random_ids, replaced)
        masked = input_ids.copy()
        masked[positions] = replaced
        return Masked(masked, positions, labels)

    def select(self, input_ids: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        candidates = np.flatnonzero(~self.is_special[input_ids])
        sequence = np.repeat(np.arange(len(lengths)), lengths)[candidates]
        counts = np.bincount(sequence, minlength=len(lengths))
        # Stochastic rounding keeps the fraction at `rate` for short sequences too.
        wanted = np.maximum(np.floor(counts * self.rate + rng.random(len(lengths))), 1)
        opens = self._opens_word(input_ids, candidates, sequence)
        word, own = np.cumsum(opens) - 1, sequence[opens]  # the word of each candidate, the sequence of each word
        sizes = np.bincount(word)
        # Words are shuffled within their sequences. The stable order counts where a sum is rounded to the next integer.
        order = np.argsort(own + rng.random(len(sizes)), kind="stable")
        sizes, own = sizes[order], own[order]
        before = np.cumsum(sizes) - sizes - (np.cumsum(counts) - counts)[own]  # tokens in earlier words of the sequence
        # A word is selected if at least half of it fits into the wanted number; the first one always is.
        is_chosen = np.empty(len(order), dtype=bool)
        is_chosen[order] = (before == 0) | (before + sizes / 2 <= wanted[own])
        chosen: np.ndarray = candidates[is_chosen[word]]
        return chosen

    def _opens_word(self, input_ids: np.ndarray, candidates: np.ndarray, sequence: np.ndarray) -> np.ndarray:
        """Whether each candidate is the first token of its word (whole-word masking), else all: bool [candidates]."""
        if self.continues_word is None:
            return np.ones(len(candidates), dtype=bool)
        opens: np.ndarray = ~self.continues_word[input_ids[candidates]]
        opens[1:] |= (np.diff(candidates) != 1) | (np.diff(sequence) != 0)
        opens[:1] = True
        return opens


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(Recipe):
    """The recipe of an objective that masks tokens.

    generator_share, rtd_weight: of replaced token detection, size of the generator as a fraction of the
    discriminator's, and weight of the discriminator's loss.
    """

    masker: Masker
    generator_share: float = GENERATOR_SHARE
    rtd_weight: float = RTD_WEIGHT

    @classmethod
    def of(cls, cls_id: int, sep_id: int, masker: Masker, max_length: int, **settings: Any) -> Self:
        return cls(cls_id, sep_id, masker.is_special, max_length, masker=masker, **settings)


MASKED_TEXT = "your text with one [MASK] ."  # in suggested commands


class MaskedLanguageModeling(Objective):
    """Predicts the masked tokens of one segment: [CLS] A [SEP]."""

    name: ClassVar[str] = "mlm"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("mlm",)
    words: ClassVar[str] = "mlm"
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "mask")
    needs: ClassVar[str] = "an encoder that sees both sides of a token"
    recipe: MaskedRecipe

    @classmethod
    def fits(cls, network: ModelConfig) -> bool:
        return super().fits(network) and not network.pools_last_token

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        return [Command.suggest("predict masked tokens", "fill-mask", model=model, texts=MASKED_TEXT)]

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        return (TrainedNetwork(config, words=mask_rate),)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs and masks examples, shortest first. Labels: "mlm_positions", "mlm", and those of whole examples."""
        batch, order = self._pack(documents, examples)
        masked = self.recipe.masker(batch.input_ids.numpy(), np.asarray(batch.lengths), rng)
        labels = {
            "mlm_positions": torch.from_numpy(masked.positions),
            "mlm": torch.from_numpy(masked.labels),
            **self._example_labels([examples[index] for index in order]),
        }
        return replace(batch, input_ids=torch.from_numpy(masked.input_ids), labels=labels)

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        return audit(batch, token_of, self.recipe.masker.mask_id)

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        return masked_word_examples(self.token_predictor(model), batch, tokenizer, self.recipe.masker.mask_id)

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        network = self.final_model(model)
        return self.sums(network, network.encode(batch).hidden, batch)

    def sums(self, network: Model, hidden: Tensor, batch: Batch) -> LossSums:
        """The sums of a batch whose hidden states are `hidden`: [tokens, hidden]."""
        loss, score = self.scorer.loss(network, hidden[batch.labels["mlm_positions"]], batch.labels["mlm"])
        return LossSums({"mlm": loss}, self.counts(batch), scores={"mlm": score})

    def _example_labels(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Labels of whole examples: int64 [sequences] each."""
        return {}


# -- With a classification of sentence pairs, [CLS] A [SEP] B [SEP] ----------------------------------------------------
#
# The total loss is the sum of two means: cross-entropy over the masked tokens, and over the pairs.


class MaskedLanguageModelingOnPairs(MaskedLanguageModeling):
    """Masked language modeling on pairs, which are classified too. The second of `parts` names that label."""

    head: ClassVar[str] = "pretraining"
    num_special: ClassVar[int] = 3

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        networks = super().trained_networks(config, mask_rate, generator_share)
        return tuple(replace(network, classifies_pairs=True) for network in networks)

    @staticmethod
    @abstractmethod
    def pair_label(example: Example) -> bool:
        """Whether a pair is of class 1."""

    def _example_labels(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        return {self.parts[1]: torch.tensor([int(self.pair_label(example)) for example in examples])}

    def sums(self, network: Model, hidden: Tensor, batch: Batch) -> LossSums:
        sums, part = super().sums(network, hidden, batch), self.parts[1]
        logits, labels = network.nsp_logits(network.pool(hidden, batch)), batch.labels[part]  # [sequences, 2]
        sums.losses[part] = F.cross_entropy(logits.float(), labels, reduction="sum")
        sums.scores[part] = score_classes(logits.detach().argmax(dim=-1), labels)
        return sums


# -- Next sentence prediction (Devlin et al. 2019, section 3.1, task 2): does B follow A? ----------------------------


class MaskedLanguageModelingAndNextSentence(MaskedLanguageModelingOnPairs):
    """Masked language modeling on pairs: B follows A (0), or is from another document (1)."""

    name: ClassVar[str] = "mlm+nsp"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "nsp")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "nsp"}

    def check(self, num_documents: int) -> None:
        super().check(num_documents)
        if num_documents < 2:
            raise InputError(
                "Next sentence prediction needs at least two documents, but the corpus contains one: separate "
                "documents with a blank line, or train with --objective mlm."
            )

    def for_documents(self, num_documents: int) -> Objective:
        if num_documents != 1:
            return self
        note("The text is one document, so next sentences are not scored. Separate documents with blank lines.")
        return MaskedLanguageModeling(self.recipe)

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        return plan_pairs(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        return example.is_random


# -- Sentence order prediction (Lan et al. 2020, section 3.1): are two adjacent segments in order? -------------------


class MaskedLanguageModelingAndSentenceOrder(MaskedLanguageModelingOnPairs):
    """Masked language modeling on adjacent segments: in order (0) or swapped (1)."""

    name: ClassVar[str] = "mlm+sop"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "sop")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "sop"}

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        return plan_ordered(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        return example.is_swapped
