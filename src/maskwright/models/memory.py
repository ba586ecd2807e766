"""Memory of a training step, counted from the sizes of the network.

Weights, their gradients and Adam's two moments are float32: 16 bytes a parameter. The forward pass keeps for the
backward pass what its products, norms and activations read; that grows with the tokens of a micro-batch. The counts
follow nn/ and models/ as they are written (tests hold them against what torch really keeps); Korthikanti et al. 2022,
section 4.1, count a layer of GPT the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..nn.attention import FUSED_FROM, FUSED_FROM_HALF
from .config import ModelConfig
from .flops import keys_seen, linear_flops
from .vocabulary_loss import most_scores

ITEM_BYTES = {"fp32": 4, "bf16": 2}
LOGIT_BYTES = 12  # of one score of a word held whole: the softmax and its gradient in float32, the score and a copy
PART_BYTES = 8  # of one score of a word in parts: the score, its logarithm of a share in float32, its gradient


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on one device at the fullest moment of a step."""

    weights: int
    gradients: int
    optimizer: int
    cast_weights: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All of it. What torch, the driver and other programs take comes on top."""
        return self.weights + self.gradients + self.optimizer + self.cast_weights + self.activations + self.logits


def training_memory(
    config: ModelConfig,
    num_parameters: int,
    *,
    length: int,
    sequences: int,
    scored: float,
    precision: str = "bf16",
    on_cpu: bool = False,
    in_parts: bool = True,
    recomputed: bool = False,
) -> TrainingMemory:
    """Of one micro-batch of `sequences` x `length` tokens.

    num_parameters: of all that trains; scored: positions whose whole vocabulary is scored; precision: "fp32" or "bf16";
    in_parts: whether scores are held in parts (models/vocabulary_loss.py); recomputed: whether layers keep their inputs
    alone (activation checkpointing).
    """
    size = ITEM_BYTES[precision]
    casts = (linear_flops(config) // 2 + config.vocab_size * config.table_size) * size if precision != "fp32" else 0
    activations = sequences * length * activation_bytes(config, length, precision, on_cpu, recomputed)
    most = most_scores("cpu" if on_cpu else "cuda")
    scores = scored * config.vocab_size
    logits = min(scores, max(most, config.vocab_size)) * PART_BYTES if in_parts else scores * LOGIT_BYTES
    return TrainingMemory(
        weights=4 * num_parameters,
        gradients=4 * num_parameters,
        optimizer=8 * num_parameters,
        cast_weights=casts,
        activations=round(activations),
        logits=round(logits),
    )


def activation_bytes(
    config: ModelConfig, length: int, precision: str = "bf16", on_cpu: bool = False, recomputed: bool = False
) -> float:
    """What the encoder keeps for the backward pass, bytes for one token of a sequence of `length`.

    recomputed: each layer keeps its input alone, and one layer at a time everything.
    """
    size, hidden, inner = ITEM_BYTES[precision], config.hidden_size, config.intermediate_size
    mask = (2 if on_cpu else 1) * (config.hidden_dropout > 0)  # bytes of an element's dropout mask
    # Inputs of the four products and the two norms share tensors: 5 x hidden; queries, keys, values: 3 x hidden.
    kept = 8 * hidden + (4 if config.gated else 2) * inner
    layer = kept * size + 2 * hidden * mask
    embeddings = hidden * (4 * config.embedding_norm + mask)  # the sum before the norm, if any, is float32
    weights = [_weight_bytes(config, length, depth, size, on_cpu) for depth in range(config.num_hidden_layers)]
    if recomputed:
        return config.num_hidden_layers * hidden * size + layer + max(weights, default=0.0) + embeddings
    return config.num_hidden_layers * layer + embeddings + sum(weights)


def _weight_bytes(config: ModelConfig, length: int, depth: int, size: int, on_cpu: bool) -> float:
    """Attention weights of one layer, bytes for one token; none where the fused kernel runs, which holds no weights."""
    has_dropout = config.attention_dropout > 0
    fused_from = FUSED_FROM_HALF if size < 4 else FUSED_FROM
    if not on_cpu or (not has_dropout and length >= fused_from):
        return 0.0
    seen = float(length) if config.attention == "causal" else keys_seen(config, length, depth)
    return config.num_attention_heads * seen * ((2 * size + 2) if has_dropout else size)
