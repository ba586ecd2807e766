"""The source of queries, keys and values in the three kinds of attention, found by changing the texts.

Vaswani et al. 2017, section 3.2.3: the encoder has self-attention over the source; the decoder has causal
self-attention over the target, and cross-attention with queries of the decoder and keys and values of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data.batch import Batch
from ...models.encoder_decoder import EncoderDecoder

SELF, MASKED, ACROSS = "encoder self-attention", "masked decoder self-attention", "decoder-encoder attention"


@dataclass(frozen=True)
class AttentionSources:
    """One kind of attention. query, key, value: "source" or "target", the text that it depends on; hides_later: whether
    no token attends to a later one.
    """

    kind: str
    query: str
    key: str
    value: str
    hides_later: bool


@torch.inference_mode()
def attention_sources(model: EncoderDecoder, source: list[int], target: list[int]) -> list[AttentionSources]:
    """Find the sources of the three kinds in the first layers of a model by changing each text in turn.

    source, target: token IDs, at least two each. In later layers, the target's vectors depend on the source too.
    """
    model = model.eval()
    other_source = [(id + 1) % model.config.vocab_size for id in source]
    other_target = [(id + 1) % model.config.target_vocab_size for id in target]
    plain = _look(model, source, target)
    changed = {"source": _look(model, other_source, target), "target": _look(model, source, other_target)}

    def origin(kind: str, part: str) -> str:
        found = [text for text, seen in changed.items() if not torch.equal(seen[kind, part], plain[kind, part])]
        return " and ".join(found) or "nothing"

    def sources(kind: str) -> AttentionSources:
        query, key, value = (origin(kind, part) for part in ("query", "key", "value"))
        return AttentionSources(kind, query, key, value, _hides(plain[kind, "weights"]))

    return [sources(kind) for kind in (SELF, MASKED, ACROSS)]


def _look(model: EncoderDecoder, source: list[int], target: list[int]) -> dict[tuple[str, str], Tensor]:
    """Return queries, keys, values and weights of each kind in the first layers: float [tokens, hidden], weights
    [heads, queries, keys].
    """
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, inputs, output: kept.__setitem__(name, output)

    own, writer = next(model.encoder.in_order), model.decoder.depths[0]
    watched = {
        SELF: own.attention.qkv,
        MASKED: writer.attention.qkv,
        "query": writer.cross.query,
        "key_value": writer.cross.key_value,
    }
    hooks = [part.register_forward_hook(keep(name)) for name, part in watched.items()]
    try:
        read, written = Batch.from_sequences([source]), Batch.from_sequences([target])
        encoded = model.encode(read, attentions=True)
        decoded = model.decode(written, encoded.hidden, read, attentions=True)
    finally:
        for hook in hooks:
            hook.remove()
    assert encoded.attentions and decoded.attentions and decoded.cross_attentions
    weights = (encoded.attentions[0][0], decoded.attentions[0][0], decoded.cross_attentions[0][0])
    found = {(kind, "weights"): own_weights for kind, own_weights in zip((SELF, MASKED, ACROSS), weights, strict=True)}
    for kind in (SELF, MASKED):
        found |= {
            (kind, part): own for part, own in zip(("query", "key", "value"), kept[kind].chunk(3, -1), strict=True)
        }
    key, value = kept["key_value"].chunk(2, dim=-1)
    return found | {(ACROSS, "query"): kept["query"], (ACROSS, "key"): key, (ACROSS, "value"): value}


def _hides(weights: Tensor) -> bool:
    """Return whether every weight [heads, queries, keys] of a later key is 0."""
    return weights.shape[1] == weights.shape[2] and not bool(weights.triu(1).any())
