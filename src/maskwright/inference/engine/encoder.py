"""Inference-only encoder: the forward pass of `models.transformer.Transformer`.

Weights are cast and packed once; bias, activation and residual are fused into the products; position and segment
embeddings are merged. Full attention uses the engine's implementation; every other attention rule and relative or
rotary positions use that of the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ...data.batch import Batch
from ...models.decoder import Decoder, DecoderLayer
from ...models.encoder_decoder import EncoderDecoder
from ...models.model import Model
from ...models.transformer import Encoded, Layer, Transformer, executors
from ...nn.attention import Executor, Run, SequenceOffsets, in_float32, with_global
from ...nn.cross import CrossAttentionCache
from ...nn.embeddings import Embeddings
from ...nn.layers import FeedForward
from ...nn.positions import attend_rotary
from .attention import packed_attention, rotated_attention
from .layers import KernelSet, Norm, Product, feed_forward, linear_product
from .native import NativeLayers, native_layers


class InferenceEmbeddings:
    """Token, position and segment embeddings, with layer norm if the model has it.

    The sum and the norm stay in the dtype of the weights.
    """

    def __init__(self, kernels: KernelSet, module: Embeddings) -> None:
        self.words, self.scale, self.dtype = module.word.weight.detach(), module.scale, kernels.dtype
        positions = module.fixed_positions if module.position is None else module.position.weight
        self.positions = None if positions is None else positions.detach()
        self.offset = 0 if module.position is None else module.position_offset
        types = None if module.token_type is None else module.token_type.weight.detach()
        first_type = None if types is None else types[0]
        if module.task_type is not None:
            task = module.task_type.weight[0].detach()
            first_type = task if first_type is None else first_type + task
        if self.positions is not None and first_type is not None:
            self.positions, first_type = self.positions + first_type, None
        self.first_type = first_type  # unless merged into the positions
        self.types = None if types is None or len(types) == 1 else types - types[0]  # relative to the first segment
        self.norm = None if module.norm is None else Norm.of(module.norm, module.norm.weight.dtype)
        project = module.project
        self.project = None if project is None else linear_product(kernels, project)
        self.project_first = module.project_first

    def __call__(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        token_type_ids: Tensor | None = None,
        factors: Tensor | None = None,
    ) -> Tensor:
        """Embed tokens. All ids int64 [tokens], factors float [tokens, 1]; returns float [tokens, hidden]."""
        total = F.embedding(input_ids, self.words)  # [tokens, size]
        if factors is not None:
            total = total.mul_(factors)
        if self.scale is not None:
            total = total.mul_(self.scale)
        if self.positions is not None:
            total = total.add_(F.embedding(position_ids + self.offset, self.positions))
        if self.first_type is not None:
            total = total.add_(self.first_type)
        if self.types is not None and token_type_ids is not None:
            total = total.add_(F.embedding(token_type_ids, self.types))
        if self.project is not None and self.project_first:
            total = self.project(total.to(self.dtype))
        hidden = (total if self.norm is None else self.norm(total)).to(self.dtype)
        return hidden if self.project is None or self.project_first else self.project(hidden)  # [tokens, hidden]


@dataclass(frozen=True)
class InferenceLayer:
    """One layer; see `models.transformer.Layer`. scaled, upcast: as in `SelfAttention`."""

    is_pre: bool
    scaled: Callable[[Tensor], Tensor]
    upcast: bool
    num_heads: int
    qkv: Product
    global_qkv: Product | None
    out: Product
    attention_norm: Norm | None
    ffn: Callable[[Tensor, Tensor], Tensor]
    ffn_norm: Norm
    adapt: Callable[[Tensor], Tensor] | None

    @classmethod
    def of(cls, kernels: KernelSet, layer: Layer) -> InferenceLayer:
        """Build the layer from a module."""
        attention = layer.attention
        return cls(
            layer.is_pre,
            attention.scaled,
            attention.upcast,
            attention.num_heads,
            linear_product(kernels, attention.qkv, to_attention=True),
            linear_product(kernels, attention.global_qkv, to_attention=True) if attention.global_qkv else None,
            linear_product(kernels, attention.out),
            None if layer.attention_norm is None else Norm.of(layer.attention_norm, kernels.dtype),
            feed_forward(kernels, layer.ffn),
            Norm.of(layer.ffn_norm, kernels.dtype),
            _adapter(kernels, layer),
        )

    def __call__(self, hidden: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """Apply the layer.

        hidden and result: float [rows, hidden], of the tokens of the runs and of padding; executor: replaces
        `packed_attention`.
        """
        return self.feed(self.attended(hidden, runs, executor))

    def attended(self, hidden: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """Apply attention, residual and (post-norm) layer norm; shapes as in `__call__`."""
        if not self.is_pre:
            assert self.attention_norm is not None
            return self.attention_norm(self.out.plus(self._context(hidden, runs, executor), hidden))
        normed = hidden if self.attention_norm is None else self.attention_norm(hidden)
        return self.out.plus(self._context(normed, runs, executor), hidden)

    def feed(self, hidden: Tensor) -> Tensor:
        """Apply feed-forward, residual and layer norm. hidden and result: float [tokens, hidden]."""
        hidden = self.ffn(self.ffn_norm(hidden) if self.is_pre else hidden, hidden)
        hidden = hidden if self.adapt is None else self.adapt(hidden)
        return hidden if self.is_pre else self.ffn_norm(hidden)

    def _context(self, x: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """Return the attention context before the output projection: float [tokens, hidden]."""
        qkv = self.scaled(self.qkv(x))  # [tokens, 3 * hidden]
        if executor is not None:
            executor = with_global(executor, self.global_qkv, x[: _num_tokens(runs, x)])
        if self.upcast:
            return self._attend(in_float32(qkv), runs, executor).to(qkv.dtype)
        return self._attend(qkv, runs, executor)

    def _attend(self, qkv: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        if executor is None:
            return packed_attention(qkv, runs, self.num_heads)
        tokens = _num_tokens(runs, qkv)
        context = executor(qkv[:tokens], runs, self.num_heads, dropout_probability=0.0, want_weights=False)[0]
        return context if tokens == len(qkv) else F.pad(context, (0, 0, 0, len(qkv) - tokens))


def _num_tokens(runs: tuple[Run, ...], rows: Tensor) -> int:
    """Return the number of rows that are no padding; a step of decoding has no runs, and no padding."""
    return runs[-1].stop if runs else len(rows)


def _adapter(kernels: KernelSet, layer: Layer) -> Callable[[Tensor], Tensor] | None:
    """Return the adapter of the layer's language with its norm and residual connection, or None."""
    if layer.adapters is None:
        return None
    module, norm = layer.adapters[str(layer.language)], layer.norm_of_adapter
    assert isinstance(module, FeedForward)
    ffn, before = feed_forward(kernels, module), None if norm is None else Norm.of(norm, kernels.dtype)

    def adapt(hidden: Tensor) -> Tensor:
        normed = hidden if before is None else before(hidden)
        return ffn(normed, normed if layer.norm_first else hidden)

    return adapt


def _rotating(executor: Executor | None) -> Executor | None:
    """The engine's function in place of `attend_rotary`; others unchanged."""
    if not isinstance(executor, partial) or executor.func is not attend_rotary:
        return executor
    return partial(rotated_attention, **executor.keywords)


class InferenceEncoder:
    """Encodes packed batches with weights that are read from the modules once, on construction."""

    def __init__(self, encoder: Transformer, kernels: KernelSet) -> None:
        self.encoder, self.kernels = encoder, kernels
        with torch.no_grad():
            self.relatives = encoder.relatives(kernels.attention_dtype)
        self.embeddings = InferenceEmbeddings(kernels, encoder.embeddings)
        self.native = None if any(self.relatives) else native_layers(encoder, kernels)
        self.final_norm = None if encoder.final_norm is None else Norm.of(encoder.final_norm, kernels.dtype)
        if self.native is None:
            _ = self.in_order

    @cached_property
    def in_order(self) -> list[InferenceLayer]:
        """The layers with packed weights, in the order of their use."""
        layers = [InferenceLayer.of(self.kernels, layer) for layer in self.encoder.layers if isinstance(layer, Layer)]
        return [layers[group] for group in self.encoder.layer_groups]

    def __call__(
        self,
        batch: Batch,
        hidden_states: bool = False,
        row_length: int | None = None,
        ends: SequenceOffsets | None = None,
    ) -> Encoded:
        """Encode a non-empty packed batch, as `Transformer.forward` in evaluation mode without attention weights.

        ends: sequence offsets, if one kernel must attend to the whole batch (graphs.py).
        """
        encoder = self.encoder
        encoder.warn_full_attention(batch, row_length)
        dtype, relatives = self.kernels.attention_dtype, self.relatives
        attending = [
            _rotating(one) for one in executors(encoder.config, batch, dtype, relatives, False, row_length, ends)
        ]
        inputs = batch.input_ids, batch.position_ids, batch.token_type_ids
        hidden = self.embeddings(*inputs, encoder.token_factors(batch))  # [tokens, hidden]
        if self.native is not None and not any(attending):
            states = self._native_states(self.native, hidden, batch.runs, hidden_states)
        else:
            states = self._states(hidden, batch, attending, hidden_states)
        if self.final_norm is not None:
            states[-1] = self.final_norm(states[-1])
        return Encoded(states[-1], tuple(states) if hidden_states else None)

    def _native_states(
        self, native: NativeLayers, hidden: Tensor, runs: Sequence[Run], all_layers: bool
    ) -> list[Tensor]:
        """Return the hidden states after the last layer, or the embeddings and those after every layer."""
        found = native(hidden.to(torch.float32, copy=all_layers), runs, all_layers).to(hidden.dtype)
        return [hidden, *found] if all_layers else [found]

    def _states(
        self, hidden: Tensor, batch: Batch, attending: Sequence[Executor | None], all_layers: bool
    ) -> list[Tensor]:
        """Same as `_native_states`, layer by layer. attending: the attention of each layer."""
        states, convolution = [hidden], self.encoder.convolution
        padding = 0 if convolution is not None else self.kernels.num_rows(batch.num_tokens) - batch.num_tokens
        if padding:
            hidden = F.pad(hidden, (0, 0, 0, padding))  # [rows, hidden]
        for depth, (layer, executor) in enumerate(zip(self.in_order, attending, strict=True)):
            given, hidden = hidden, layer(hidden, batch.runs, executor)
            if depth == 0 and convolution is not None:
                hidden = convolution(given, hidden, batch.lengths, batch.places)
            states = [*(states if all_layers else ()), hidden[: batch.num_tokens]]
        return states

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: tuple[Run, ...], attending: Sequence[Executor]
    ) -> Tensor:
        """Encode further tokens with cached keys and values, as `Transformer.advance`: float [tokens, hidden]."""
        hidden = self.embeddings(input_ids, position_ids)
        for layer, executor in zip(self.in_order, attending, strict=True):
            hidden = layer(hidden, runs, executor)
        return hidden if self.final_norm is None else self.final_norm(hidden)


# -- Inference-only decoding step of causal language models and of decoders: one more token per sequence -------------
#
# Same computation as `models.transformer.Transformer.advance` and `models.decoder.Decoder.grow`.


@dataclass(frozen=True)
class InferenceDecoderLayer:
    """One decoder layer; see `models.decoder.DecoderLayer`. query, out, norm: of the cross-attention."""

    self_attention: InferenceLayer
    query: Product
    out: Product
    norm: Norm

    @classmethod
    def of(cls, kernels: KernelSet, layer: DecoderLayer) -> InferenceDecoderLayer:
        """Build the layer from a module."""
        cross = layer.cross
        return cls(
            InferenceLayer.of(kernels, layer),
            linear_product(kernels, cross.query, to_attention=True),
            linear_product(kernels, cross.out),
            Norm.of(layer.cross_norm, kernels.dtype),
        )

    def __call__(self, hidden: Tensor, executor: Executor, memory: CrossAttentionCache, depth: int) -> Tensor:
        """Apply the layer.

        hidden and result: float [rows, hidden]; executor: self-attention over the generated tokens; memory:
        cross-attention keys and values of the source; depth: layer index from 0.
        """
        hidden = self.self_attention.attended(hidden, (), executor)
        query = self.query(self.norm(hidden) if self.self_attention.is_pre else hidden)
        hidden = self.out.plus(memory.attend(query, depth), hidden)
        return self.self_attention.feed(hidden if self.self_attention.is_pre else self.norm(hidden))


class InferenceDecoder:
    """Runs one decoding step of a decoder."""

    def __init__(self, decoder: Decoder, kernels: KernelSet) -> None:
        self.embeddings = InferenceEmbeddings(kernels, decoder.embeddings)
        layers = [
            InferenceDecoderLayer.of(kernels, layer) for layer in decoder.layers if isinstance(layer, DecoderLayer)
        ]
        self.in_order = [layers[group] for group in decoder.layer_groups]
        self.final_norm = None if decoder.final_norm is None else Norm.of(decoder.final_norm, kernels.dtype)

    def __call__(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """Same as `Decoder.grow`: float [rows, hidden]."""
        hidden = self.embeddings(tokens, positions)
        for depth, (layer, executor) in enumerate(zip(self.in_order, attending, strict=True)):
            hidden = layer(hidden, executor, memory, depth)
        return hidden if self.final_norm is None else self.final_norm(hidden)


class InferenceSteps:
    """See `models.decoding.translation.Steps`. kernels: builds the kernels."""

    def __init__(self, model: Model, kernels: KernelSet) -> None:
        is_pair = isinstance(model, EncoderDecoder)
        self._encoder = None if is_pair else InferenceEncoder(model.encoder, kernels)
        self._decoder = InferenceDecoder(model.decoder, kernels) if isinstance(model, EncoderDecoder) else None
        head = model.predictions
        self._before = head.before_decoder
        self._product = kernels.product(head.table(model.scored_words), head.bias)

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """Encode further tokens of a causal language model: float [tokens, hidden]."""
        assert self._encoder is not None, "use grow for an encoder-decoder"
        return self._encoder.advance(input_ids, position_ids, tuple(runs), attending)

    def grow(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """Decode one token per row of an encoder-decoder: float [rows, hidden]."""
        assert self._decoder is not None, "use advance for a causal language model"
        return self._decoder(tokens, positions, attending, memory)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return vocabulary logits: float32 [rows, vocab]."""
        return self._product(self._before(hidden)).float()
