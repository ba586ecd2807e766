"""Objective: what a network learns from unlabeled text. Each one is a class in its own file, derived from this base.

The base turns documents into packed examples and declares which network to train, which special tokens the tokenizer
must have, and which commands can use the result. Corruption, labels and loss belong to the objectives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch, Deal, order_by_length
from ..models.build import build
from ..models.config import ModelConfig
from ..models.model import Model
from ..report import Command, MaskExample, MaskExamples
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence
from .fitting import GENERATOR_SHARE, TrainedNetworks
from .outcome import LossSums, TokenScorer
from .segments import Example, plan_singles
from .stream import Documents, ExampleBatches, ExampleStream, Tokens


class Batches(Protocol):
    """Resumable source of training batches."""

    def batch(self, step: int, number: int) -> Batch: ...

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]: ...

    def state(self) -> dict[str, int]: ...

    def restore(self, state: dict[str, int]) -> None: ...


@dataclass(frozen=True)
class Recipe:
    """How text becomes examples of at most `max_length` tokens, including special tokens.

    cls_id, sep_id: tokens that begin and end a text, like [CLS] and [SEP]; is_special: bool [vocab]; short_share:
    fraction of shorter examples; frames: whether every part of a text starts with the start token; token_counts: int64
    [vocab], in the training text, for the baselines of scores (None: no baseline).
    """

    cls_id: int
    sep_id: int
    is_special: np.ndarray = field(compare=False)
    max_length: int
    short_share: float = 0.1
    frames: bool = True
    token_counts: np.ndarray | None = field(default=None, compare=False)


class Objective(ABC):
    """A pre-training objective.

    head: of the final model; parts: of the loss; words: the part that predicts tokens; num_special: special tokens per
    example; network_settings: fields of ModelConfig that it sets; roles: special tokens required in the tokenizer:
    those that begin and end a text, then [MASK] if it is used; is_seq2seq: whether it trains an encoder-decoder; needs:
    the networks that it can train, in messages; num_networks: how many it trains, where one can continue from a trained
    model; carries_state: whether a batch continues the previous one, so only one process can train it;
    predicts_special: whether special tokens are among the labels; examples_title, examples_note: of `word_examples` in
    the report, where {where} is the text they are of.
    """

    name: ClassVar[str]
    head: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    words: ClassVar[str]
    num_special: ClassVar[int] = 2
    network_settings: ClassVar[dict[str, Any]] = {}
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep")
    is_seq2seq: ClassVar[bool] = False
    needs: ClassVar[str] = "an encoder with layers"
    num_networks: ClassVar[int] = 1
    carries_state: ClassVar[bool] = False
    predicts_special: ClassVar[bool] = False
    examples_title: ClassVar[str] = MaskExamples.title
    examples_note: ClassVar[str] = "One masked word per sequence of {where}."

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.max_tokens = recipe.max_length - self.num_special

    # -- models ----------------------------------------------------------------------------------------------------

    @classmethod
    def fits(cls, network: ModelConfig) -> bool:
        """Returns whether it can train a network, once `network_settings` are set."""
        return network.num_hidden_layers > 0 and cls.is_seq2seq == (network.num_decoder_layers > 0)

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """Returns the model to train without initialized parameters. generator_share: see `MaskedRecipe`."""
        return Model(config, cls.head)

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        """Returns the networks that are trained, the main one last, to estimate cost; empty if not supported."""
        return ()

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        """Returns commands that use the model without fine-tuning. model: its folder."""
        return []

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        return build(config, head=self.head, seed=seed)

    def final_model(self, model: nn.Module) -> Model:
        """Returns the final model, used after training."""
        assert isinstance(model, Model)
        return model

    def token_predictor(self, model: nn.Module) -> Model:
        return self.final_model(model)

    def trained(self, model: Model, generator: Model | None) -> nn.Module:
        """Returns what `outcome` scores, for a final model. generator: of a model with `head` "rtd"."""
        return model

    # -- examples --------------------------------------------------------------------------------------------------

    @classmethod
    def line_separator(cls, tokenizer: Tokenizer) -> str:
        """Text between the lines of a document; "" if lines are encoded one by one."""
        return ""

    def check(self, num_documents: int) -> None:
        """Raises InputError if the corpus is too small for this objective."""
        if num_documents < 1:
            raise InputError("The corpus contains no document: provide a text file with at least one line.")

    def for_documents(self, num_documents: int) -> Objective:
        """Returns the objective that can be scored on `num_documents` documents: itself, or its part without pairs."""
        return self

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        return plan_singles(bounds, self.max_tokens, self.recipe.short_share, rng)

    @abstractmethod
    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first, with labels for `outcome`. rng: of all samples."""

    def batches(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> Batches:
        """Returns the endless training batches, `accumulation` of `sequences` each per step, of the documents `chosen`,
        int64 [documents].
        """
        return ExampleBatches(self.batch, ExampleStream(documents, chosen, self.plan, seed), sequences)

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        """Returns fixed batches of held-out text with at most `most` sequences; empty if the text is too short."""
        examples = ExampleStream(documents, chosen, self.plan, seed).section(0, 0)[:most]
        return [
            self.batch(documents, examples[start : start + sequences], generator(seed, "held-out masks", start))
            for start in range(0, len(examples), sequences)
        ]

    def whole_text(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int
    ) -> Iterator[tuple[Batch, float]]:
        """Yields every example once, in batches of `sequences`, with the completed fraction of the text."""
        stream = ExampleStream(documents, chosen, self.plan, seed)
        count = len(stream.sections(0))
        for section in range(count):
            planned = stream.section(0, section)
            for start in range(0, len(planned), sequences):
                part = planned[start : start + sequences]
                rng = generator(seed, "held-out masks", section, start)
                yield self.batch(documents, part, rng), (section + (start + len(part)) / len(planned)) / count

    # -- what a person is shown ------------------------------------------------------------------------------------

    @abstractmethod
    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """Returns a human-readable batch. token_of: converts an id to its token."""

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        """Returns predictions of one word in each of some sequences of a batch, for the report."""
        return []

    # -- loss ------------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        return {part: len(batch.labels[part]) for part in self.parts}

    @abstractmethod
    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Losses and scores of a batch; logits are computed at labeled positions only."""

    @cached_property
    def scorer(self) -> TokenScorer:
        return TokenScorer(self.recipe.is_special, self.recipe.token_counts, self.predicts_special)

    # -- packs -----------------------------------------------------------------------------------------------------

    def _pack(self, documents: Tokens, examples: Sequence[Example]) -> tuple[Batch, np.ndarray]:
        """Packs the examples as they are, shortest first; returns their order: int64 [sequences]."""
        rows = [self._row(documents, example) for example in examples]
        order = order_by_length([len(ids) for ids, _ in rows])
        rows = [rows[index] for index in order]
        batch = Batch.from_sequences([ids for ids, _ in rows])
        if all(second == len(ids) for ids, second in rows):
            return batch, order
        seconds = np.repeat([second for _, second in rows], batch.lengths)
        return replace(batch, token_type_ids=(batch.position_ids >= torch.from_numpy(seconds)).long()), order

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, int]:
        """Ids of [CLS] A [SEP], or of [CLS] A [SEP] B [SEP], and where the second segment begins, or would."""
        a = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        has_pair = example.b_start != example.b_stop
        b = documents.document_tokens(example.b_document)[example.b_start : example.b_stop] if has_pair else a[:0]
        middle = len(a) + 1  # of the first [SEP]
        ids = np.empty(middle + 1 + (len(b) + 1 if has_pair else 0), dtype=np.int64)
        ids[0], ids[1:middle], ids[middle] = self.recipe.cls_id, a, self.recipe.sep_id
        if has_pair:
            ids[middle + 1 : -1], ids[-1] = b, self.recipe.sep_id
        return ids, middle + 1
