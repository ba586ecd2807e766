"""One more token of each row, with fixed weights: what a left-to-right model or a decoder of texts does at each step.

The same network as `models.transformer.Transformer.advance` and `models.decoder.Decoder.grow`, without the head's loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ...models.decoder import Decoder, DecoderLayer
from ...models.encoder_decoder import EncoderDecoder
from ...models.model import Model
from ...nn.attention import Executor
from ...nn.cross import CrossMemory
from ...nn.runs import Run
from .encoder import FixedEmbeddings, FixedEncoder, FixedLayer
from .layers import Kit, Norm, Product


@dataclass(frozen=True)
class FixedDecoderLayer:
    """One set of weights of a decoder; see `models.decoder.DecoderLayer`. query, out, norm: of its cross-attention."""

    own: FixedLayer
    query: Product
    out: Product
    norm: Norm

    @classmethod
    def of(cls, kit: Kit, layer: DecoderLayer) -> FixedDecoderLayer:
        """That of a module."""
        cross = layer.cross
        return cls(
            FixedLayer.of(kit, layer),
            kit.product(cross.query.weight, cross.query.bias, to_attention=True),
            kit.product(cross.out.weight, cross.out.bias),
            Norm.of(layer.cross_norm, kit.dtype),
        )

    def __call__(self, hidden: Tensor, executor: Executor, memory: CrossMemory, depth: int) -> Tensor:
        """hidden: float [rows, hidden], as is the result; executor: of the text that is written; memory: of the texts
        that were read; depth: of the layer, from 0.
        """
        hidden = self.own.attended(hidden, (), executor)
        asking = self.query(self.norm(hidden) if self.own.is_pre else hidden)
        hidden = self.out.plus(memory.attend(asking, depth), hidden)
        return self.own.feed(hidden if self.own.is_pre else self.norm(hidden))


class FixedDecoder:
    """Grows the rows of a decoder by one token each."""

    def __init__(self, decoder: Decoder, kit: Kit) -> None:
        self.embeddings = FixedEmbeddings(kit, decoder.embeddings)
        layers = [FixedDecoderLayer.of(kit, layer) for layer in decoder.layers if isinstance(layer, DecoderLayer)]
        self.in_order = [layers[group] for group in decoder.layer_groups]
        self.final_norm = None if decoder.final_norm is None else Norm.of(decoder.final_norm, kit.dtype)

    def __call__(self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossMemory) -> Tensor:
        """As `Decoder.grow`: float [rows, hidden]."""
        hidden = self.embeddings(tokens, positions)
        for depth, (layer, executor) in enumerate(zip(self.in_order, attending, strict=True)):
            hidden = layer(hidden, executor, memory, depth)
        return hidden if self.final_norm is None else self.final_norm(hidden)


class FixedSteps:
    """See `models.decoding.steps.Steps`. kit: what the network is made with."""

    def __init__(self, model: Model, kit: Kit) -> None:
        is_pair = isinstance(model, EncoderDecoder)
        self._encoder = None if is_pair else FixedEncoder(model.encoder, kit)
        self._decoder = FixedDecoder(model.decoder, kit) if isinstance(model, EncoderDecoder) else None
        head = model.predictions
        self._before = head.before_decoder
        self._product = kit.product(head.table(model.scored_words), head.bias)

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """float [tokens, hidden]."""
        assert self._encoder is not None, "an encoder-decoder grows"
        return self._encoder.advance(input_ids, position_ids, tuple(runs), attending)

    def grow(self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossMemory) -> Tensor:
        """float [rows, hidden]."""
        assert self._decoder is not None, "a left-to-right model advances"
        return self._decoder(tokens, positions, attending, memory)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocab]."""
        return self._product(self._before(hidden)).float()
