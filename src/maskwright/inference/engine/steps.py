"""Inference-only decoding step of causal language models and of decoders: one more token per sequence.

Same computation as `models.transformer.Transformer.advance` and `models.decoder.Decoder.grow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ...models.decoder import Decoder, DecoderLayer
from ...models.encoder_decoder import EncoderDecoder
from ...models.model import Model
from ...nn.attention import Executor
from ...nn.cross import CrossAttentionCache
from ...nn.runs import Run
from .adapted import linear_product
from .encoder import InferenceEmbeddings, InferenceEncoder, InferenceLayer
from .layers import KernelSet, Norm, Product


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
    """See `models.decoding.steps.Steps`. kernels: builds the kernels."""

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
