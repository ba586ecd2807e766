"""An encoder whose weights are fixed: the same network as `models.transformer.Transformer`, forward only.

Weights are cast and packed once, bias, activation and residual are inside the products, position and segment tables are
one table. What attends is the engine's own attention where all see all, and that of the modules under every other rule
or with relative or rotary positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from ...data.batch import Batch
from ...models.attending import executors
from ...models.transformer import Encoded, Layer, Transformer
from ...nn.attention import Executor
from ...nn.embeddings import Embeddings
from ...nn.runs import Run
from ...nn.varlen import Ends
from .attention import attend_fixed
from .layers import Kit, Norm, Product


class FixedEmbeddings:
    """Token + position + segment vectors, normed where the network norms them.

    The sum and its norm stay in the dtype of the weights.
    """

    def __init__(self, kit: Kit, module: Embeddings) -> None:
        self.words, self.scale, self.dtype = module.word.weight.detach(), module.scale, kit.dtype
        places = module.fixed_positions if module.position is None else module.position.weight
        self.places = None if places is None else places.detach()
        self.offset = 0 if module.position is None else module.position_offset
        types = None if module.token_type is None else module.token_type.weight.detach()
        first_type = None if types is None else types[0]
        if self.places is not None and first_type is not None:
            self.places, first_type = self.places + first_type, None
        self.first_type = first_type  # where no table of positions has it already
        self.types = None if types is None or len(types) == 1 else types - types[0]  # what is left to add to the first
        self.norm = None if module.norm is None else Norm.of(module.norm, module.norm.weight.dtype)
        own = module.project
        self.project = None if own is None else kit.product(own.weight, own.bias)

    def __call__(self, input_ids: Tensor, position_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """int64 [tokens] each. Returns float [tokens, hidden]."""
        total = F.embedding(input_ids, self.words)  # [tokens, size]
        if self.scale is not None:
            total = total.mul_(self.scale)
        if self.places is not None:
            total = total.add_(F.embedding(position_ids + self.offset, self.places))
        if self.first_type is not None:
            total = total.add_(self.first_type)
        if self.types is not None and token_type_ids is not None:
            total = total.add_(F.embedding(token_type_ids, self.types))
        hidden = (total if self.norm is None else self.norm(total)).to(self.dtype)
        return hidden if self.project is None else self.project(hidden)  # [tokens, hidden]


@dataclass(frozen=True)
class FixedLayer:
    """One set of layer weights; see `models.transformer.Layer`."""

    is_pre: bool
    num_heads: int
    qkv: Product
    out: Product
    attention_norm: Norm | None
    ffn: Callable[[Tensor, Tensor], Tensor]
    ffn_norm: Norm

    @classmethod
    def of(cls, kit: Kit, layer: Layer) -> FixedLayer:
        """That of a module."""
        attention = layer.attention
        return cls(
            layer.is_pre,
            attention.num_heads,
            kit.product(attention.qkv.weight, attention.qkv.bias, to_attention=True),
            kit.product(attention.out.weight, attention.out.bias),
            None if layer.attention_norm is None else Norm.of(layer.attention_norm, kit.dtype),
            kit.feed_forward(layer.ffn),
            Norm.of(layer.ffn_norm, kit.dtype),
        )

    def __call__(self, hidden: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """hidden: float [tokens, hidden], as is the result. executor: what attends instead of `attend_fixed`."""
        return self.feed(self.attended(hidden, runs, executor))

    def attended(self, hidden: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """Attention, add and, post-norm, norm. The same as above."""
        if not self.is_pre:
            assert self.attention_norm is not None
            return self.attention_norm(self.out.plus(self._context(hidden, runs, executor), hidden))
        normed = hidden if self.attention_norm is None else self.attention_norm(hidden)
        return self.out.plus(self._context(normed, runs, executor), hidden)

    def feed(self, hidden: Tensor) -> Tensor:
        """Feed-forward, add and norm. float [tokens, hidden], as is the result."""
        if self.is_pre:
            return self.ffn(self.ffn_norm(hidden), hidden)
        return self.ffn_norm(self.ffn(hidden, hidden))

    def _context(self, x: Tensor, runs: tuple[Run, ...], executor: Executor | None) -> Tensor:
        """What attention makes of x, before its output product: float [tokens, hidden]."""
        qkv = self.qkv(x)  # [tokens, 3 * hidden]
        if executor is None:
            return attend_fixed(qkv, runs, self.num_heads)
        return executor(qkv, runs, self.num_heads, dropout_probability=0.0, want_weights=False)[0]


class FixedEncoder:
    """Runs packs through fixed weights. kit: what it is made with; the modules' weights are read once, here."""

    def __init__(self, encoder: Transformer, kit: Kit) -> None:
        self.encoder, self.attention_dtype, self.relatives = encoder, kit.attention_dtype, encoder.relatives
        self.embeddings = FixedEmbeddings(kit, encoder.embeddings)
        layers = [FixedLayer.of(kit, layer) for layer in encoder.layers if isinstance(layer, Layer)]
        self.in_order = [layers[group] for group in encoder.layer_groups]
        self.final_norm = None if encoder.final_norm is None else Norm.of(encoder.final_norm, kit.dtype)

    def __call__(
        self, batch: Batch, hidden_states: bool = False, row_length: int | None = None, ends: Ends | None = None
    ) -> Encoded:
        """Encode a pack that has tokens; as `Transformer.forward` in evaluation, without attention weights.

        ends: of its sequences, where one kernel must attend to the whole pack (graphs.py).
        """
        encoder, states = self.encoder, []
        encoder.say_what_is_full(batch, row_length)
        dtype, relatives = self.attention_dtype, self.relatives
        attending = executors(encoder.config, batch, dtype, relatives, False, row_length, ends)
        hidden = self.embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids)  # [tokens, hidden]
        for layer, executor in zip(self.in_order, attending, strict=True):
            if hidden_states:
                states.append(hidden)
            hidden = layer(hidden, batch.runs, executor)
        hidden = hidden if self.final_norm is None else self.final_norm(hidden)
        if hidden_states:
            states.append(hidden)
        return Encoded(hidden, tuple(states) if hidden_states else None)

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: tuple[Run, ...], attending: Sequence[Executor]
    ) -> Tensor:
        """Tokens whose executors know what came before; as `Transformer.advance`. Returns float [tokens, hidden]."""
        hidden = self.embeddings(input_ids, position_ids)
        for layer, executor in zip(self.in_order, attending, strict=True):
            hidden = layer(hidden, runs, executor)
        return hidden if self.final_norm is None else self.final_norm(hidden)
