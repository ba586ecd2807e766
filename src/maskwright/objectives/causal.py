"""Causal language modeling: predict each token from the previous ones (Radford et al. 2018, equation 1).

Labels are all ordinary tokens of [CLS] A [SEP], and [SEP] if the text ends there, but not where an example is
truncated. Nearly every position has a label, compared with 15% in masked language modeling, and generated texts end. A
tokenizer without [CLS] and [SEP], such as GPT-2's, has one token between texts: it comes before the first token of a
text and after its last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.randomness import generator
from ..data.batch import Batch, Deal
from ..models.build import build
from ..models.config import ModelConfig
from ..models.model import Model
from ..nn.recurrent import States
from ..report import Command, MaskExample
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence, audit, next_word_examples
from .base import Objective, Recipe
from .fitting import GENERATOR_SHARE, TrainedNetwork, TrainedNetworks
from .outcome import LossSums
from .segments import Example
from .stream import Documents, Tokens

# -- Contiguous streams for truncated backpropagation through time (TBPTT) -------------------------------------------
#
# The concatenated documents are split into parallel streams, the rows of a batch, and each batch has the next segment
# of every stream. The gradient is truncated at the segment, but the hidden state is carried over (Williams and Peng
# 1990; Mikolov et al. 2010, section 2).


@dataclass
class StreamPosition:
    """The next segment: number `stretch` of epoch `epoch`."""  # terms: ok

    epoch: int = 0
    stretch: int = 0


class ContiguousStreams:
    """Endless consecutive segments of `num_streams` parallel streams (rows), as batches.

    chosen: int64 [documents], the documents to read, in order; recipe: its max_length is that of a segment; seed: of
    the start position in each epoch, None to start at the first token; accumulation: number of batches that share a
    segment.
    """

    def __init__(
        self,
        documents: Documents,
        chosen: np.ndarray,
        recipe: Recipe,
        num_streams: int,
        seed: int | None,
        accumulation: int = 1,
    ) -> None:
        self.documents, self.chosen, self.recipe, self.seed = documents, chosen, recipe, seed
        self.accumulation = accumulation
        self._segment: tuple[np.ndarray, bool] | None = None
        self.before = [recipe.cls_id] if recipe.frames else []
        self.after = [recipe.sep_id]
        lengths = documents.document_lengths()[chosen] + len(self.before) + len(self.after)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.num_tokens = int(self.starts[-1])
        # A short text has fewer streams, each long enough to carry state.
        self.num_streams = max(min(num_streams, self.num_tokens // (2 * recipe.max_length)), 1)
        self.stream_tokens = self.num_tokens // self.num_streams
        if self.stream_tokens < 2:
            raise InputError("The text has no token to predict: provide at least two tokens.")
        self.place = StreamPosition()

    @property
    def num_segments(self) -> int:
        return -(-(self.stream_tokens - 1) // self.recipe.max_length)

    def take(self) -> tuple[np.ndarray, bool]:
        """Returns the next segment, int64 [streams, tokens + 1], and whether it starts from a reset state. The last
        token is only a target, and the next segment starts with it.
        """
        epoch, number = self.place.epoch, self.place.stretch
        start = number * self.recipe.max_length
        stop = min(start + self.recipe.max_length, self.stream_tokens - 1)
        shift = 0 if self.seed is None else int(generator(self.seed, "lanes", epoch).integers(self.num_tokens))
        rows = [
            self._read(shift + stream * self.stream_tokens + start, stop - start + 1)
            for stream in range(self.num_streams)
        ]
        self.place = StreamPosition(epoch, number + 1) if number + 1 < self.num_segments else StreamPosition(epoch + 1)
        return np.stack(rows), number == 0

    def _read(self, start: int, count: int) -> np.ndarray:
        """Tokens of the concatenated text, which wraps around: int64 [count]."""
        parts: list[np.ndarray] = []
        place = start % self.num_tokens
        while count:
            number = int(np.searchsorted(self.starts, place, side="right")) - 1
            own = self.documents.document_tokens(int(self.chosen[number]))
            begin = place - int(self.starts[number])
            part = np.concatenate([self.before, own, self.after]).astype(np.int64)[begin : begin + count]
            parts.append(part)
            count -= len(part)
            place = (place + len(part)) % self.num_tokens
        return np.concatenate(parts)

    def batch(self, step: int, number: int) -> Batch:
        """Returns micro-batch `number` of a step; call it in order.

        Labels: "clm_positions", where a token is predicted, and "clm", its id; "streams" int64 [sequences], consecutive
        stream numbers; "goes_on" bool [sequences], whether the state of the previous step is carried over.
        """
        if number == 0 or self._segment is None:
            self._segment = self.take()
        rows, begins = self._segment
        own = np.array_split(np.arange(len(rows)), self.accumulation)[number]
        wanted = torch.from_numpy(rows[own, 1:].copy()).flatten()  # [tokens]
        positions = torch.arange(len(wanted))
        if self.before:  # the first token of a text is not a target
            positions = positions[wanted != self.before[0]]
        return Batch.from_sequences(list(rows[own, :-1])).with_labels(
            clm_positions=positions,
            clm=wanted[positions],
            streams=torch.from_numpy(own),
            goes_on=torch.full((len(own),), not begins),
        )

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]:
        """Returns all micro-batches of a step, because the state is carried from each to the next. Raises InputError
        for another choice.
        """
        if deal([1] * count) != list(range(count)):
            raise InputError("Streams carry their state from batch to batch, so they cannot be split over processes.")
        return [(number, self.batch(step, number)) for number in range(count)]

    def state(self) -> dict[str, int]:
        return asdict(self.place)

    def restore(self, state: dict[str, int]) -> None:
        self.place = StreamPosition(**state)


class NextTokenPrediction(Objective):
    """Predicts the next token at every token, in a causal network."""

    name: ClassVar[str] = "clm"
    head: ClassVar[str] = "clm"
    parts: ClassVar[tuple[str, ...]] = ("clm",)
    words: ClassVar[str] = "clm"
    predicts_special: ClassVar[bool] = True
    network_settings: ClassVar[dict[str, Any]] = {
        "attention": "causal",
        "full_attention_every": 0,
        "separate_directions": False,
    }
    roles: ClassVar[tuple[str, ...]] = ("bos", "eos")
    examples_title: ClassVar[str] = "Next-token predictions"
    examples_note: ClassVar[str] = "One position per sequence of {where}."

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        return [Command.suggest("generate text", "generate", model=model, prompts="your text", top_k=40)]

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        return (TrainedNetwork(config, words=1.0),)

    @classmethod
    def line_separator(cls, tokenizer: Tokenizer) -> str:
        return tokenizer.word_markers.line_separator

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first. Labels: "clm_positions", where a token is predicted, and "clm", its id."""
        batch, order = self._pack(documents, examples)
        is_target = ~torch.from_numpy(self.recipe.is_special)[batch.input_ids]  # [tokens]
        ends_text = torch.tensor([self._ends_text(documents, examples[index]) for index in order.tolist()])
        is_target[batch.last_tokens[ends_text]] = True
        is_target[batch.first_tokens] = False
        targets = is_target.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(clm_positions=targets - 1, clm=batch.input_ids[targets])

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, int]:
        """Ids of a part of a text with its special tokens; all of one segment."""
        if self.recipe.frames:
            return super()._row(documents, example)
        tokens = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        before = [self.recipe.cls_id] if example.a_start == 0 else []
        after = [self.recipe.sep_id] if self._ends_text(documents, example) else []
        ids = np.concatenate([before, tokens, after]).astype(np.int64)
        return ids, len(ids)

    @staticmethod
    def _ends_text(documents: Tokens, example: Example) -> bool:
        return example.a_stop == len(documents.document_tokens(example.a_document))

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        inside = predicted_tokens(batch)
        labels = {"mlm_positions": batch.labels["clm_positions"][inside] + 1, "mlm": batch.labels["clm"][inside]}
        return audit(batch.with_labels(**labels), token_of, None, unchanged="next")

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        targets = batch.labels["clm_positions"][predicted_tokens(batch)] + 1  # [labels]
        return next_word_examples(self.token_predictor(model), batch, targets, tokenizer)

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        network = self.final_model(model)
        vectors = network.encode(batch).hidden[batch.labels["clm_positions"]]  # [labels, hidden]
        loss, score = self.scorer.loss(network, vectors, batch.labels["clm"])
        return LossSums({"clm": loss}, self.counts(batch), scores={"clm": score})


def predicted_tokens(batch: Batch) -> Tensor:
    """Which target tokens are in the batch itself: bool [labels]. The last target of a stream segment is in the next
    batch.
    """
    last: Tensor = batch.last_tokens[torch.tensor(batch.lengths) > 0]
    return ~torch.isin(batch.labels["clm_positions"], last)


# -- Causal language modeling with hidden state carried across batches (truncated backpropagation through time) ------
#
# A segment of max_length tokens is processed, gradients are truncated at its start, and the next segment continues with
# the final hidden state (Mikolov et al. 2010, section 2).

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
        return StatefulLanguageModel(Model(config, cls.head))

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        return StatefulLanguageModel(build(config, head=self.head, seed=seed))

    def final_model(self, model: nn.Module) -> Model:
        return model.network if isinstance(model, StatefulLanguageModel) else super().final_model(model)

    def trained(self, model: Model, generator: Model | None) -> nn.Module:
        return StatefulLanguageModel(model).eval()

    def batches(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> ContiguousStreams:
        return ContiguousStreams(documents, chosen, self.recipe, sequences * accumulation, seed, accumulation)

    def held_out(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int, most: int
    ) -> list[Batch]:
        streams = ContiguousStreams(documents, chosen, self.recipe, sequences, None)
        count = min(streams.num_segments, max(most // streams.num_streams, 1))
        return [streams.batch(step, 0) for step in range(count)]

    def whole_text(
        self, documents: Documents, chosen: np.ndarray, *, seed: int, sequences: int
    ) -> Iterator[tuple[Batch, float]]:
        """Yields the text as one stream of consecutive segments, with the completed fraction of it."""
        recipe = replace(self.recipe, max_length=WHOLE_TEXT_SEGMENT)
        streams = ContiguousStreams(documents, chosen, recipe, 1, None)
        for number in range(streams.num_segments):
            yield streams.batch(number, 0), (number + 1) / streams.num_segments

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
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


# -- Bidirectional language modeling: each token is predicted from the tokens before it, and from those after it -----
#
# The loss is the sum of the negative log-likelihoods of both directions (Peters et al. 2018, section 3.1). The
# directions are separate, so neither sees its targets; the embedding table and the decoder are shared.


class BidirectionalTokenPrediction(NextTokenPrediction):
    """Predicts every token from the left and from the right, in a network with separate directions."""

    name: ClassVar[str] = "bilm"
    head: ClassVar[str] = "bilm"
    parts: ClassVar[tuple[str, ...]] = ("clm", "backward")
    network_settings: ClassVar[dict[str, Any]] = {"attention": "full", "separate_directions": True}
    needs: ClassVar[str] = "a recurrent encoder such as elmo-small"

    @classmethod
    def fits(cls, network: ModelConfig) -> bool:
        return super().fits(network) and network.recurrent is not None

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        return []

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        return ()

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first. Labels: "clm_positions" and "clm" for next tokens, "backward_positions" and
        "backward" for previous tokens.
        """
        batch = super().batch(documents, examples, rng)
        ids = batch.input_ids
        ordinary = ~torch.from_numpy(self.recipe.is_special)[ids]  # [tokens]
        ordinary[batch.last_tokens] = False
        targets = ordinary.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(backward_positions=targets + 1, backward=ids[targets])

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        network = self.final_model(model)
        left, right = network.encode(batch).hidden.chunk(2, dim=-1)  # [tokens, hidden / 2] each
        losses, scores = {}, {}
        for part, vectors in (("clm", left), ("backward", right)):
            losses[part], scores[part] = self.scorer.loss(
                network, vectors[batch.labels[f"{part}_positions"]], batch.labels[part]
            )
        return LossSums(losses, self.counts(batch), scores=scores)
