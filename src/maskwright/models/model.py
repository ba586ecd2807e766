"""Model: an encoder with at most one head, and its packed and padded calls.

Training and inference use the packed calls (`encode`, `pool`, `first`, `mlm_logits`, `nsp_logits`, `logits`). The
padded call (`forward`) has the inputs and outputs of transformers; it packs its input and unpacks the output, so both
give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, get_args

import torch
from torch import Tensor, nn

from ..core import registry
from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..data.batch import Batch, range_of
from ..nn.attention import Executor, Run
from ..nn.cross import CrossAttentionCache
from ..nn.recurrent import States
from .adapters import Adapter
from .config import ModelConfig
from .heads import (
    SECOND_HEAD,
    Head,
    SequenceClassificationHead,
    SpanHead,
    TokenClassificationHead,
    TokenHead,
    VectorHead,
    asked_in_pack,
    forbid,
    make_head,
    make_layer_mix_head,
    pooled_late,
    require,
    with_global_tokens,
    with_segments,
)
from .padded import ModelOutput, Targets, padded_call
from .pooling import Projection, mean_of
from .pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead
from .recurrent import RecurrentEncoder
from .transformer import Encoded, Transformer

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

HEAD_NAMES = tuple(registry.TABLE["head"])  # mlm, nsp, pretraining, rtd, classification, regression, tagging, ...


class DecodingSteps(Protocol):
    """Incremental decoding with a snapshot of a model's weights."""

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """Encodes tokens with a causal model: float [tokens, hidden]; see `Transformer.advance`."""

    def grow(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """Decodes one more target token of each row: float [rows, hidden]; see `Decoder.grow`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits: float32 [rows, vocab]. hidden: [rows, hidden]."""


class Engine(Protocol):
    """Optimized execution of a model's encoder in inference mode; see `inference.engine`."""

    def encode(self, model: Model, batch: Batch, hidden_states: bool, row_length: int | None) -> Encoded:
        """Returns what `model.encode` returns."""

    def steps(self, model: Model, num_rows: int) -> DecodingSteps | None:
        """Returns incremental decoding of `num_rows` texts, None to use the modules."""


ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}  # names of their prompts


@dataclass(frozen=True)
class LateInteraction:
    """How a vector for each token is made of queries and of the texts that are searched (`inference.late`).

    query_length, document_length: maximum tokens, None for those of other texts; fill_to: tokens up to which queries
    are filled, or None; fill_with: the token for that, None for the mask token; attends: whether those are attended
    to; skipped: tokens whose vectors are left out; skipped_of: of "document", "query" or both; mean: whether scores are
    divided by the tokens of the query.
    """

    query_length: int | None = None
    document_length: int | None = None
    fill_to: int | None = None
    fill_with: str | None = None
    attends: bool = False
    skipped: tuple[str, ...] = ()
    skipped_of: tuple[str, ...] = ("document",)
    mean: bool = False


@dataclass(frozen=True)
class SentenceSettings:
    """How a model makes sentence embeddings; read from a folder by `hub.sentence`.

    pooling: as in `models.pooling.pool`; normalize: whether embeddings have length 1; max_length: tokens, or None;
    normalize_tokens: whether token embeddings have length 1 before pooling; dimensions: number of first dimensions that
    are kept of an embedding, after normalization, or None; prompts: texts by name; default_prompt: name of the prompt
    before every text, or None; lower_case: whether the tokenizer lower-cases because the folder says so; sparse: for
    sparse embeddings, how those of the tokens are combined ("max" or "sum"), else None; logs: how often log(1 + x) is
    applied to their logits; include_prompt: whether the tokens of a prompt are pooled; late: for
    a vector per token, whose projection is applied to each, else None.
    """

    pooling: str = "mean"
    normalize: bool = False
    max_length: int | None = None
    normalize_tokens: bool = False
    dimensions: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    lower_case: bool = False
    sparse: str | None = None
    logs: int = 1
    include_prompt: bool = True
    late: LateInteraction | None = None

    @property
    def kind(self) -> str:
        """What a text becomes: "dense" (one vector), "sparse" or "late" (a vector per token)."""
        return "late" if self.late is not None else "dense" if self.sparse is None else "sparse"

    @property
    def prompt(self) -> str:
        """The text before every text, or ""."""
        return self.prompts.get(self.default_prompt or "", "")

    def prompt_of(self, role: str | None) -> str:
        """The text before every query ("query") or text that is searched ("document"); without one, as `prompt`."""
        found = [self.prompts[name] for name in ROLES.get(role or "", ()) if name in self.prompts]
        return next(filter(None, found), "" if found else self.prompt)


class Model(nn.Module):
    """An encoder with a head. Parameters are not initialized here: use `build` or `hub.load_model`.

    Attributes:
        config: Its configuration.
        head_name, head: One of HEAD_NAMES, or None and None for a bare encoder with its pooler (if its family has one).
        tokenizer: Its tokenizer, or None.
        sentence: Sentence embedding settings of its folder, or None.
        routes: Models of other roles of texts ("query", "document") by role; see `inference.embed.Encoder`.
        projection: What follows the pooling of its sentence embeddings, before normalization; None for nothing.
        task_name: Task that it was fine-tuned for, as recorded in its folder, or None.
        trained_length: Maximum sequence length in training, or None.
        adapter: What it knows of its adapter; None for a whole model.
        graph_precision: Precision of the exported graph that computes it; None for a model with weights.
        has_states, generates: What a graph gives; True and False for a model with weights.
    """

    has_decoder: ClassVar[bool] = False

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
            "This configuration is an encoder-decoder, but an encoder is needed here: use another preset.",
        )
        head = make_head(head_name, config, labels, problem_type)
        if with_pooler is None:
            idle = config.idle_pooler and not isinstance(head, SpanHead)
            with_pooler = config.pooler if head is None else head.needs_pooler or idle
        self.config = config
        self.head_name = head_name
        self.encoder = _make_encoder(config, with_pooler)
        self.top = make_layer_mix_head(config)
        check(
            self.top is None or not isinstance(head, MaskedLanguageModelHead | PretrainingHead | ReplacedTokenHead),
            "mix_layers and top_layers are for task heads: pre-train without them.",
        )
        self.head: Head | None = head
        self.tokenizer: Tokenizer | None = None
        self.sentence: SentenceSettings | None = None
        self.routes: dict[str, Model] = {}
        self.projection: Projection | None = None
        self.task_name: str | None = None
        self.trained_length: int | None = None
        self.adapter: Adapter | None = None
        self.graph_precision: str | None = None
        self.has_states, self.generates = True, False
        self.engine: Engine | None = None  # used in inference mode; set by `inference.ready.place`
        self._compute_dtype: torch.dtype | None = None

    # -- properties ------------------------------------------------------------------------------------------

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the hidden states; that of the weights unless set.

        Set it to torch.bfloat16 to compute in bfloat16 with float32 weights, each cast on use.
        """
        return self._compute_dtype or self.word_embeddings.dtype

    @compute_dtype.setter
    def compute_dtype(self, dtype: torch.dtype | None) -> None:
        """None resets it to the dtype of the weights."""
        self._compute_dtype = dtype

    @property
    def recomputes(self) -> bool:
        """Whether activation checkpointing is on (see `Transformer`)."""
        return self.encoder.recomputes

    @recomputes.setter
    def recomputes(self, wanted: bool) -> None:
        """Sets activation checkpointing for every stack of layers, including a decoder's."""
        for part in self.modules():
            if isinstance(part, Transformer):
                part.recomputes = wanted

    @property
    def word_embeddings(self) -> Tensor:
        """The embedding table: float [vocab, size], size being config.table_size."""
        return self.encoder.embeddings.word.weight

    @property
    def scored_words(self) -> Tensor:
        """The embedding table used by a tied LM head: float [vocab, size]."""
        return self.word_embeddings

    @property
    def has_pooler(self) -> bool:
        """Whether there is a pooler."""
        return self.encoder.pooler is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outputs of a sequence or token classification head; empty for others."""
        head = self.head
        return head.labels if isinstance(head, SequenceClassificationHead | TokenClassificationHead) else ()

    @property
    def num_labels(self) -> int:
        """Number of labels; 0 for heads without labels."""
        return len(self.labels)

    @property
    def problem_type(self) -> str | None:
        """One of losses.PROBLEM_TYPES, or None to infer it from the labels."""
        return self.head.problem_type if isinstance(self.head, SequenceClassificationHead) else None

    @property
    def num_parameters(self) -> int:
        """Number of parameters; a tied decoder counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    # -- packed ----------------------------------------------------------------------------------------------

    def encode(
        self, batch: Batch, *, hidden_states: bool = False, attentions: bool = False, row_length: int | None = None
    ) -> Encoded:
        """Encodes a pack: `.hidden` [tokens, hidden] in compute_dtype; also every layer if requested.

        row_length: length of the padded rows of the pack, which transformers' BigBird depends on; None without padding.
        In inference mode, the model's engine is used if it has one. Raises InputError for ids, positions or token types
        out of range.
        """
        if batch.input_ids.device.type == "cpu":  # on a GPU the check would synchronize every step
            self.check(batch)
        batch = self.with_global_tokens(batch)
        if self.top is None:
            return self._encode(batch, hidden_states, attentions, row_length)
        encoded = self._encode(batch, True, attentions, row_length)
        assert encoded.hidden_states is not None
        hidden = self.top(encoded.hidden_states, batch)
        return replace(encoded, hidden=hidden, hidden_states=encoded.hidden_states if hidden_states else None)

    def with_global_tokens(self, batch: Batch) -> Batch:
        """Returns the pack with the global tokens that the head needs, if the network has them."""
        if not self.config.global_attention:
            return batch
        return with_global_tokens(batch, self.head, self.config.global_sep_token_id)

    def _encode(self, batch: Batch, hidden_states: bool, attentions: bool, row_length: int | None) -> Encoded:
        """Runs the encoder only; see `encode`."""
        is_inference = torch.is_inference_mode_enabled() and not self.training
        # Only the modules return attention weights, and recurrent layers always use torch's kernels.
        if self.engine is not None and is_inference and not attentions and self.config.recurrent is None:
            return self.engine.encode(self, batch, hidden_states, row_length)
        encoded: Encoded = self.encoder(
            batch, self.compute_dtype, hidden_states=hidden_states, attentions=attentions, row_length=row_length
        )
        return encoded

    def encode_stateful(self, batch: Batch, states: Sequence[States] | None = None) -> Encoded:
        """Encodes a pack whose sequences continue those of the previous call; `.states` is for the next call.

        states: from the previous call, None for zeros. Raises InputError for a model without carried state.
        """
        if self.config.recurrent is None or not self.config.pools_last_token or self.config.character_width:
            raise InputError("Only a unidirectional recurrent network can carry its hidden state across batches.")
        if batch.input_ids.device.type == "cpu":
            self.check(batch)
        encoded: Encoded = cast("RecurrentEncoder", self.encoder)(
            batch, self.compute_dtype, states=states, carries=True
        )
        return encoded

    def pool(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Pools each sequence: tanh(W h + b) of its first token (last, with causal attention).

        hidden: [tokens, hidden]. Returns float [sequences, hidden]. Raises InputError for an empty sequence, and for a
        model without pooler.
        """
        if not self.has_pooler:
            raise InputError("This model has no pooler: load it with a sequence head.")
        _check_no_empty(batch)
        # Cheap for one vector per sequence, and in the dtype of the weights its scores are not rounded to bfloat16.
        return self.encoder.pool(hidden[self._pooled_tokens(batch)].to(self.word_embeddings.dtype))

    def one_pass(self, batch: Batch) -> Tensor:
        """Computes a pack to measure the time it takes. Returns one of the results: [tokens or sequences, ...]."""
        return self.encode(batch).hidden

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary. hidden: [positions, hidden]. Returns [positions, vocab]."""
        logits: Tensor = self.predictions(hidden, self.scored_words)
        return logits

    def mlm_loss(self, hidden: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Summed cross-entropy of those logits and number of correct predictions, scalars, computed in chunks.

        hidden: [positions, hidden]; labels: int64 [positions]; label_smoothing: see `vocabulary_loss`.
        """
        return self.predictions.loss(hidden, self.scored_words, labels, label_smoothing)[:2]

    @property
    def predictions(self) -> MaskedLanguageModelHead:
        """The language modeling head. Raises InputError for a model without one."""
        head = require(self.head, (MaskedLanguageModelHead, PretrainingHead), "predict masked tokens")
        return head.predictions if isinstance(head, PretrainingHead) else head

    def token_logits(self, batch: Batch, where: Tensor) -> Tensor:
        """Logits over the vocabulary at tokens of a pack: float [positions, vocab]. where: an index of [tokens]."""
        return self.mlm_logits(self.encode(batch).hidden[where])

    def pair_logits(self, batch: Batch) -> Tensor:
        """Logits of `nsp_logits` for a pack: float [sequences, 2]."""
        return self.nsp_logits(self.pool(self.encode(batch).hidden, batch))

    def nsp_logits(self, pooled: Tensor) -> Tensor:
        """Logits of 0 = B follows A, 1 = B is random. pooled: [sequences, hidden]. Returns [sequences, 2]."""
        head = require(self.head, (NextSentenceHead, PretrainingHead), "predict whether a sentence follows")
        logits: Tensor = (head.seq_relationship if isinstance(head, PretrainingHead) else head)(pooled)
        return logits

    def first(self, hidden: Tensor, batch: Batch) -> Tensor:
        """The input of a sequence head: pooled vectors if it needs them, else first tokens or means (last tokens with
        causal attention).

        hidden: [tokens, hidden] of `encode`. Returns float [sequences, hidden]. Raises InputError as `pool` does.
        """
        if self.head is None or self.head.needs_pooler:
            return self.pool(hidden, batch)
        _check_no_empty(batch)
        hidden = hidden.to(self.word_embeddings.dtype)
        if getattr(self.head, "takes_mean", False):
            return mean_of(pooled_late(self.head, hidden), batch)
        return hidden[self._pooled_tokens(batch)]

    def _pooled_tokens(self, batch: Batch) -> Tensor:
        """The pooled token of each sequence, which can attend to all others: int64 [sequences]."""
        return batch.last_tokens if self.config.pools_last_token else batch.first_tokens

    def logits(self, batch: Batch) -> Tensor:
        """Logits of a pack: [sequences, num_labels] for a sequence head, 2 columns for next sentence, 1 for choices and
        anomalies; [tokens, num_labels] for a token head, 2 columns (start, end) for spans; [tokens] for replaced token
        detection.
        """
        return self.head_logits(self.hidden_for_head(batch), batch)

    def hidden_for_head(self, batch: Batch) -> Tensor:
        """The hidden states that `head_logits` takes: float [tokens, hidden]."""
        return self.encode(batch if (sep := self.question_sep) is None else with_segments(batch, sep)).hidden

    def head_logits(self, hidden: Tensor, batch: Batch) -> Tensor:
        """As `logits`, from the hidden states of the pack in any layer: float [tokens, hidden]."""
        require(self.head, (*get_args(TokenHead), *get_args(VectorHead), NextSentenceHead), "classify whole sequences")
        found = tuple(self.head_outputs(hidden, batch).values())
        return found[0] if len(found) == 1 else torch.stack(found, dim=-1)

    def head_outputs(self, hidden: Tensor, batch: Batch, pooled: Tensor | None = None) -> dict[str, Tensor]:
        """The outputs of `apply_head` for a pack.

        hidden: float [tokens, hidden] of any layer; pooled: float [sequences, hidden], `pool` of it if computed before.
        """
        asked = None if (sep := self.question_sep) is None else asked_in_pack(batch, sep)

        def vectors() -> Tensor:
            if pooled is not None and self.head is not None and self.head.needs_pooler:
                return pooled
            return self.first(hidden, batch)

        return self.apply_head(hidden, vectors, asked)

    def apply_head(
        self, hidden: Tensor, vectors: Callable[[], Tensor], asked: tuple[Tensor, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Outputs of the head in transformers' names, in order; empty without a head.

        hidden: float [..., hidden], of the tokens of a pack or of padded rows; vectors: returns the input of a sequence
        head, float [sequences, hidden]; asked: bool [...] each, the tokens of the question, and the first token of each
        text, if answers must be kept out of the question. An output is [..., n] or [...], or [sequences, n]: see
        `is_per_token`.
        """
        head = self.head
        if isinstance(head, SpanHead):
            spans = head(hidden) if asked is None else forbid(head(hidden), *asked)
            return dict(zip(("start_logits", "end_logits"), spans.unbind(-1), strict=True))
        if isinstance(head, TokenHead):
            return {"logits": head(hidden)}
        if isinstance(head, VectorHead | NextSentenceHead):
            return {"logits": head(vectors())}
        if isinstance(head, PretrainingHead):
            second = SECOND_HEAD[self.config.pair_objective][0]
            return {"prediction_logits": self.mlm_logits(hidden), second: self.nsp_logits(vectors())}
        return {} if head is None else {"logits": self.mlm_logits(hidden)}

    @property
    def question_sep(self) -> int | None:
        """The token that ends a question, if answers must be kept out of the question by it."""
        return self.config.question_sep_token_id if isinstance(self.head, SpanHead) else None

    def check(self, batch: Batch) -> None:
        """Raises InputError for ids, positions, token types or lengths out of range."""
        if not batch.num_tokens:
            return
        longest, most = max(batch.lengths), self.config.max_position_embeddings
        if longest > most:
            raise InputError(
                f"A sequence has {longest:,} tokens; this model supports at most {most:,}: truncate it "
                "(max_length), or split it into windows."
            )
        _check_range(range_of(batch.input_ids), self.config.vocab_size, "Token id", "vocabulary")
        _check_range(batch.position_range, most, "Position", "position table", -self.config.position_offset)
        if batch.token_type_ids is not None and self.config.type_vocab_size > 1:
            _check_range(range_of(batch.token_type_ids), self.config.type_vocab_size, "Token type", "token type table")

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
        global_attention_mask: Tensor | None = None,
    ) -> ModelOutput:
        """The padded call, in transformers' names and shapes.

        input_ids, attention_mask, token_type_ids: int [batch, seq] ([batch, choices, seq] for choice); position_ids:
        rows of the position table, default: the column (with an offset: counted over non-padding tokens). Masked tokens
        (left or right padding, or gaps) are removed from the input and are 0 in the output (the lowest number in start
        and end logits); sequence heads take the first unmasked token.
        labels: [batch, seq] for mlm, tagging, rtd and pretraining (with next_sentence_label or sentence_order_label
        [batch]), [batch] for nsp and choice, see `sequence_loss` for sequence heads; start_positions, end_positions
        [batch] for qa. global_attention_mask: like input_ids, 1 for tokens with global attention (default: those of
        the head, as `heads.global_columns`). -100 and labels of masked tokens are ignored. Raises InputError.
        """
        targets = Targets(labels, next_sentence_label, sentence_order_label, start_positions, end_positions)
        return padded_call(
            self,
            (input_ids, attention_mask, token_type_ids, position_ids, global_attention_mask),
            targets,
            hidden_states=output_hidden_states,
            attentions=output_attentions,
        )

    # -- files ----------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, facts: dict[str, Any] | None = None, replace: bool = False) -> None:
        """Saves a Hugging Face model folder; see `hub.folders.save_model`."""
        registry.resolve("model_folder", "huggingface")(self, folder, facts=facts, replace=replace)


def tokenizer_of(model: Model, name: str = "The model") -> Tokenizer:
    """Returns the model's tokenizer. Raises ModelFolderError if it has none."""
    if model.tokenizer is None:
        raise ModelFolderError(f"{name} has no tokenizer: its folder needs tokenizer.json or vocab.txt.")
    return model.tokenizer


def _make_encoder(config: ModelConfig, with_pooler: bool) -> Transformer:
    """The Transformer, or the recurrent encoder, which has the same interface."""
    return (
        Transformer(config, with_pooler) if config.recurrent is None else cast("Transformer", RecurrentEncoder(config))
    )


def _check_no_empty(batch: Batch) -> None:
    if 0 in batch.lengths:
        raise InputError(f"Sequence {batch.lengths.index(0)} of the pack is empty: it has no token to pool.")


def _check_range(found: tuple[int, int], size: int, what: str, table: str, least: int = 0) -> None:
    lowest, highest = found
    if lowest < least or highest >= size:
        wrong = lowest if lowest < least else highest
        raise InputError(f"{what} {wrong:,} is not in the model's {table}, 0 to {size - 1:,}.")
