"""A model: the encoder, at most one head, and three ways in.

Packed (`encode`, `pool`, `first`, `mlm_logits`, `nsp_logits`, `logits`) is what training and inference use. Padded
(`forward`) takes and returns what transformers does; it packs on entry and spreads on exit, so both give the
same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, get_args

import torch
from torch import Tensor, nn

from ..core import registry
from ..core.config import check
from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.recurrent import States
from .config import ModelConfig
from .heads import (
    Head,
    SequenceClassificationHead,
    SpanHead,
    TokenClassificationHead,
    VectorHead,
    make_head,
    require,
)
from .initialisation import initialise
from .output import ModelOutput
from .padded_call import Targets, padded_call
from .pooling import mean_of
from .pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead
from .questions import forbid, packed_question, with_segments
from .recurrent import RecurrentEncoder
from .top import make_top
from .transformer import Encoded, Transformer

if TYPE_CHECKING:
    from .decoding.steps import Steps

HEAD_NAMES = tuple(registry.TABLE["head"])  # mlm, nsp, pretraining, rtd, classification, regression, tagging, ...


class Engine(Protocol):
    """Runs a model's encoder while it is only used; see `inference.engine`."""

    def encode(self, model: Model, batch: Batch, hidden_states: bool, row_length: int | None) -> Encoded:
        """What `model.encode` gives, by whatever is fastest here."""

    def steps(self, model: Model, num_rows: int) -> Steps | None:
        """What grows so many texts by a token each, again and again; None where the modules do."""


class Model(nn.Module):
    """An encoder with a head.

    config: its sizes; head_name, head: one of HEAD_NAMES, or None and None for a bare encoder with its pooler (if
    its family has one); tokenizer: the one it was trained with, or None; sentence: how its folder makes vectors of
    sentences (`hub.sentence.Declared`), or None; task_name, trained_length: what its folder says it was fine-tuned
    for, and how many tokens a text had in training, or None. Parameters are left unfilled: `build` fills them,
    `hub.load_model` loads them.
    """

    has_decoder: ClassVar[bool] = False  # whether it writes a second text

    def __init__(
        self,
        config: ModelConfig,
        head_name: str | None = None,
        *,
        labels: Sequence[str] | int | None = None,
        problem_type: str | None = None,
        with_pooler: bool | None = None,
    ) -> None:
        super().__init__()
        check(
            self.has_decoder or not config.num_decoder_layers,
            "This network is an encoder-decoder, and an encoder is needed here: take another preset.",
        )
        head = make_head(head_name, config, labels, problem_type)
        if with_pooler is None:
            idle = config.idle_pooler and not isinstance(head, SpanHead)
            with_pooler = config.pooler if head is None else head.needs_pooler or idle
        self.config = config
        self.head_name = head_name
        self.encoder = _make_encoder(config, with_pooler)
        self.top = make_top(config)
        check(
            self.top is None or not isinstance(head, MaskedLanguageModelHead | PretrainingHead | ReplacedTokenHead),
            "mix_layers and top_layers are for the heads of tasks: pre-train without them.",
        )
        self.head: Head | None = head
        self.tokenizer: Any = None
        self.sentence: Any = None
        self.task_name: Any = None
        self.trained_length: int | None = None
        self.engine: Engine | None = None  # what encodes under inference mode; `inference.ready.place` sets it
        self._compute_dtype: torch.dtype | None = None

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the hidden states; that of the weights unless set.

        Set it to torch.bfloat16 to compute in bfloat16 over float32 weights, each cast once where it is used.
        """
        return self._compute_dtype or self.word_embeddings.dtype

    @compute_dtype.setter
    def compute_dtype(self, dtype: torch.dtype | None) -> None:
        """None goes back to the dtype of the weights."""
        self._compute_dtype = dtype

    @property
    def recomputes(self) -> bool:
        """Whether layers in training keep their inputs alone and run again for their gradients (`Transformer`)."""
        return self.encoder.recomputes

    @recomputes.setter
    def recomputes(self, wanted: bool) -> None:
        """Of every stack of layers, a decoder's too."""
        for part in self.modules():
            if isinstance(part, Transformer):
                part.recomputes = wanted

    @property
    def word_embeddings(self) -> Tensor:
        """The word table: float [vocab, size], size being config.table_size."""
        return self.encoder.embeddings.word.weight

    @property
    def scored_words(self) -> Tensor:
        """The table with which a head that shares it scores words: float [vocab, size]."""
        return self.word_embeddings

    @property
    def has_pooler(self) -> bool:
        """Whether sequences can be pooled to one vector."""
        return self.encoder.pooler is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outputs of a head that classifies texts or tokens; none for others."""
        head = self.head
        return head.labels if isinstance(head, SequenceClassificationHead | TokenClassificationHead) else ()

    @property
    def num_labels(self) -> int:
        """How many of them there are; 0 for other heads."""
        return len(self.labels)

    @property
    def problem_type(self) -> str | None:
        """One of losses.PROBLEM_TYPES, or None when the labels of a loss decide."""
        return self.head.problem_type if isinstance(self.head, SequenceClassificationHead) else None

    @property
    def num_parameters(self) -> int:
        """Numbers that training can change; a tied decoder counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    # -- packed ----------------------------------------------------------------------------------------------

    def encode(
        self, batch: Batch, *, hidden_states: bool = False, attentions: bool = False, row_length: int | None = None
    ) -> Encoded:
        """Encode a pack: `.hidden` [tokens, hidden] in compute_dtype; every layer's as well if asked.

        row_length: of the padded rows that the pack came from, which transformers' BigBird minds; None for texts alone.
        Under inference mode a model that has an engine is run by it. Raises InputError for ids, positions or token
        types that the tables do not have.
        """
        if batch.input_ids.device.type == "cpu":  # on a GPU a check would make every step wait
            self.check(batch)
        if self.top is None:
            return self._encode(batch, hidden_states, attentions, row_length)
        encoded = self._encode(batch, True, attentions, row_length)
        assert encoded.hidden_states is not None
        hidden = self.top(encoded.hidden_states, batch)
        return replace(encoded, hidden=hidden, hidden_states=encoded.hidden_states if hidden_states else None)

    def _encode(self, batch: Batch, hidden_states: bool, attentions: bool, row_length: int | None) -> Encoded:
        """What the encoder alone gives, as `encode` says."""
        only_used = torch.is_inference_mode_enabled() and not self.training
        # Attention weights are the modules' alone, and recurrent kernels are torch's.
        if self.engine is not None and only_used and not attentions and self.config.recurrent is None:
            return self.engine.encode(self, batch, hidden_states, row_length)
        return self.encoder(
            batch, self.compute_dtype, hidden_states=hidden_states, attentions=attentions, row_length=row_length
        )

    def read_on(self, batch: Batch, states: Sequence[States] | None = None) -> Encoded:
        """Encode a pack whose sequences go on: `.states` is what is remembered after it, for the next call.

        states: what an earlier call left, None to begin anew. Raises InputError for a network that remembers nothing.
        """
        if self.config.recurrent is None or not self.config.judges_last or self.config.character_width:
            raise InputError("Only a recurrent network that reads from the left goes on with what it remembers.")
        if batch.input_ids.device.type == "cpu":
            self.check(batch)
        encoded: Encoded = cast("RecurrentEncoder", self.encoder)(
            batch, self.compute_dtype, states=states, carries=True
        )
        return encoded

    def pool(self, hidden: Tensor, batch: Batch) -> Tensor:
        """One vector per sequence: tanh(W h + b) of the token that is judged. hidden: [tokens, hidden] of `encode`.

        Returns float [sequences, hidden]. Raises InputError for a sequence without tokens and a model without
        pooler.
        """
        if not self.has_pooler:
            raise InputError("This model has no pooler: load it with a head that judges whole sequences.")
        _check_no_empty(batch)
        # One vector per sequence costs nothing: in the dtype of the weights its scores are not rounded to bfloat16.
        return self.encoder.pool(hidden[self._judged(batch)].to(self.word_embeddings.dtype))

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        """Logits of the whole vocabulary. hidden: [positions, hidden]. Returns [positions, vocab]."""
        logits: Tensor = self.predictions(hidden, self.scored_words)
        return logits

    def mlm_loss(self, hidden: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Summed cross-entropy of those logits and how many are right, scalars, without ever holding all logits.

        hidden: [positions, hidden]; labels: int64 [positions]; label_smoothing: as `vocabulary_loss` takes it.
        """
        return self.predictions.loss(hidden, self.scored_words, labels, label_smoothing)

    @property
    def predictions(self) -> MaskedLanguageModelHead:
        """The head that guesses words. Raises InputError for a model with another one."""
        head = require(self.head, (MaskedLanguageModelHead, PretrainingHead), "predict masked tokens")
        return head.predictions if isinstance(head, PretrainingHead) else head

    def nsp_logits(self, pooled: Tensor) -> Tensor:
        """Logits of 0 = B follows A, 1 = B is random. pooled: [sequences, hidden]. Returns [sequences, 2]."""
        head = require(self.head, (NextSentenceHead, PretrainingHead), "judge whether a sentence follows")
        logits: Tensor = (head.seq_relationship if isinstance(head, PretrainingHead) else head)(pooled)
        return logits

    def first(self, hidden: Tensor, batch: Batch) -> Tensor:
        """What a head on whole sequences judges: pooled vectors where it needs them, else first tokens or means
        (last tokens under causal attention).

        hidden: [tokens, hidden] of `encode`. Returns float [sequences, hidden]. Raises InputError as `pool` does.
        """
        if self.head is None or self.head.needs_pooler:
            return self.pool(hidden, batch)
        _check_no_empty(batch)
        hidden = hidden.to(self.word_embeddings.dtype)
        if getattr(self.head, "takes_mean", False):
            return mean_of(hidden, batch)
        return hidden[self._judged(batch)]

    def _judged(self, batch: Batch) -> Tensor:
        """The token of each sequence that has seen the others: int64 [sequences]."""
        return batch.last_tokens if self.config.judges_last else batch.first_tokens

    def logits(self, batch: Batch) -> Tensor:
        """Logits of a pack: [sequences, num_labels] by a sequence head, 2 columns for next sentence, 1 for choices
        and anomalies;
        [tokens, num_labels] by a token head, 2 columns (start, end) for spans; [tokens] for replaced tokens.
        """
        if isinstance(self.head, SpanHead) and self.config.question_sep_token_id is not None:
            return self._answers(batch, self.config.question_sep_token_id)
        hidden = self.encode(batch).hidden
        if isinstance(self.head, TokenClassificationHead | SpanHead | ReplacedTokenHead):
            return self.head(hidden)
        head = require(self.head, (*get_args(VectorHead), NextSentenceHead), "classify whole sequences")
        logits: Tensor = head(self.first(hidden, batch))
        return logits

    def _answers(self, batch: Batch, sep_token_id: int) -> Tensor:
        """Span logits [tokens, 2] where the question's tokens are ruled out."""
        hidden = self.encode(with_segments(batch, sep_token_id)).hidden
        is_first = torch.zeros_like(batch.input_ids, dtype=torch.bool)
        is_first[batch.first_tokens[torch.tensor(batch.lengths) > 0]] = True
        assert isinstance(self.head, SpanHead)
        return forbid(self.head(hidden), packed_question(batch, sep_token_id), is_first)

    def check(self, batch: Batch) -> None:
        """Raise InputError for ids, positions, token types or a length that the tables do not have."""
        if not batch.num_tokens:
            return
        longest, most = max(batch.lengths), self.config.max_position_embeddings
        if longest > most:
            raise InputError(
                f"A sequence has {longest:,} tokens; this model takes at most {most:,}: truncate it "
                "(max_length), or cut it into windows."
            )
        _check_range(batch.input_ids, self.config.vocab_size, "Token id", "vocabulary")
        _check_range(batch.position_ids, most, "Position", "position table", -self.config.position_offset)
        if batch.token_type_ids is not None and self.config.type_vocab_size > 1:
            _check_range(batch.token_type_ids, self.config.type_vocab_size, "Token type", "token type table")

    # -- padded ----------------------------------------------------------------------------------------------

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        sentence_order_label: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> ModelOutput:
        """The padded call, in transformers' names and shapes.

        input_ids, attention_mask, token_type_ids: int [batch, seq] ([batch, choices, seq] for choice); position_ids:
        rows of the position table, default the column (with an offset: counted over tokens that are not padding).
        Left and right padding and holes are dropped on entry and come back as zeros; the pooled token is that of column
        0, and a span's softmax runs over all columns.
        labels: [batch, seq] for mlm, tagging, rtd and pretraining (with next_sentence_label or sentence_order_label
        [batch]), [batch] for nsp and choice, as `sequence_loss` says for sequence heads; start_positions, end_positions
        [batch] for qa. -100 and labels of dropped tokens do not count. Raises InputError.
        """
        targets = Targets(labels, next_sentence_label, sentence_order_label, start_positions, end_positions)
        return padded_call(
            self,
            (input_ids, attention_mask, token_type_ids, position_ids),
            targets,
            hidden_states=output_hidden_states,
            attentions=output_attentions,
        )

    # -- files ----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, facts: dict[str, Any] | None = None, replace: bool = False) -> None:
        """Write a Hugging Face model folder; see `hub.folders.save_model`."""
        registry.resolve("model_folder", "huggingface")(self, folder, facts=facts, replace=replace)


def _make_encoder(config: ModelConfig, with_pooler: bool) -> Transformer:
    """The Transformer, or the recurrent encoder that takes its place, with the same calls."""
    return (
        Transformer(config, with_pooler) if config.recurrent is None else cast("Transformer", RecurrentEncoder(config))
    )


def make_model(
    config: ModelConfig,
    head: str | None = None,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    with_pooler: bool | None = None,
) -> Model:
    """A model whose parameters are not filled; an EncoderDecoder where the configuration has a decoder."""
    if config.num_decoder_layers:
        from .encoder_decoder import EncoderDecoder  # which is a Model, and needs this module

        return EncoderDecoder(config, head, labels=labels)
    return Model(config, head, labels=labels, problem_type=problem_type, with_pooler=with_pooler)


def build(
    config: ModelConfig,
    head: str | None = None,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    seed: int = 0,
) -> Model:
    """A model with random weights, drawn as published; the same seed gives the same weights.

    head: one of HEAD_NAMES, or None for the bare encoder with its pooler; labels: names (or number) of a
    classifier's outputs. Raises ConfigError for an unknown head.
    """
    model = make_model(config, head, labels=labels, problem_type=problem_type)
    initialise(model, config.initializer_range, seed)
    return model


def _check_no_empty(batch: Batch) -> None:
    if 0 in batch.lengths:
        raise InputError(f"Sequence {batch.lengths.index(0)} of the pack is empty: it has no first token to pool.")


def _check_range(ids: Tensor, size: int, what: str, table: str, least: int = 0) -> None:
    lowest, highest = (int(value) for value in torch.aminmax(ids))
    if lowest < least or highest >= size:
        wrong = lowest if lowest < least else highest
        raise InputError(f"{what} {wrong:,} is not in the model's {table}, 0 to {size - 1:,}.")
