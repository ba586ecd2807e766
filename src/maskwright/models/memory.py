"""Memory estimate of a training step, computed from the sizes of the network.

Weights, gradients and Adam's two moments are float32: 16 bytes per parameter. The forward pass stores the inputs of
products, norms and activations for the backward pass; this grows with the tokens of a micro-batch. The counts follow
the code in nn/ and models/ (tests compare them with torch's actual memory); Korthikanti et al. 2022, section 4.1, count
a GPT layer the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..nn.attention import FUSED_FROM, FUSED_FROM_HALF
from .config import ModelConfig
from .decoder import decoder_config
from .flops import keys_seen, linear_flops
from .vocabulary_loss import most_scores

ITEM_BYTES = {"fp32": 4, "bf16": 2}
LOGIT_BYTES = 12  # per logit, unchunked: softmax and gradient in float32, the logit and a copy
PART_BYTES = 8  # per logit, chunked: the logit, its probability in float32, its gradient


@dataclass(frozen=True)
class TrainingMemory:
    """Peak memory of a training step on one device, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    cast_weights: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """Sum of all parts. Memory of torch, the driver and other programs is extra."""
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
    target: int = 0,
) -> TrainingMemory:
    """Estimates the memory of one micro-batch of `sequences` x `length` tokens.

    Args:
        num_parameters: Trainable parameters.
        scored: Positions with logits over the whole vocabulary.
        precision: "fp32" or "bf16".
        in_parts: Whether logits are computed in chunks (models/vocabulary_loss.py).
        recomputed: Activation checkpointing.
        target: Tokens of each target, computed by the decoder of an encoder-decoder.
    """
    size, vocab = ITEM_BYTES[precision], config.target_vocab_size
    casts = (_matrix_entries(config) + vocab * config.table_size) * size if precision != "fp32" else 0
    activations = length * activation_bytes(config, length, precision, on_cpu, recomputed)
    if target:
        activations += _target_bytes(config, length, target, precision, on_cpu, recomputed)
    most = most_scores("cpu" if on_cpu else "cuda")
    scores = scored * vocab
    logits = min(scores, max(most, vocab)) * PART_BYTES if in_parts else scores * LOGIT_BYTES
    return TrainingMemory(
        weights=4 * num_parameters,
        gradients=4 * num_parameters,
        optimizer=8 * num_parameters,
        cast_weights=casts,
        activations=round(sequences * activations),
        logits=round(logits),
    )


def _matrix_entries(config: ModelConfig) -> int:
    """Entries of the matrices of all layers."""
    entries = linear_flops(config) // 2
    if config.num_decoder_layers:
        entries += linear_flops(decoder_config(config)) // 2 + config.num_decoder_layers * 4 * config.hidden_size**2
    return entries


def _target_bytes(
    config: ModelConfig, length: int, target: int, precision: str, on_cpu: bool, recomputed: bool
) -> float:
    """Bytes stored by the decoder for the backward pass of one text: `length` source and `target` target tokens."""
    size, hidden, layers = ITEM_BYTES[precision], config.hidden_size, config.num_decoder_layers
    mask = (2 if on_cpu else 1) * (config.hidden_dropout > 0)
    has_dropout = config.attention_dropout > 0
    # Inputs of the two products and the norm, and queries: 4 x hidden; keys and values of the source: 2 x hidden. The
    # weights are stored on every device, because no fused kernel computes them.
    cross = target * (4 * size + mask) * hidden + length * 2 * size * hidden
    cross += target * length * config.num_attention_heads * ((2 * size + 2) if has_dropout else size)
    own = target * activation_bytes(decoder_config(config), target, precision, on_cpu, recomputed)
    return own + cross * (1 if recomputed else layers)


def activation_bytes(
    config: ModelConfig, length: int, precision: str = "bf16", on_cpu: bool = False, recomputed: bool = False
) -> float:
    """Bytes stored by the encoder for the backward pass, per token of a sequence of `length`.

    recomputed: each layer stores only its input, plus everything for one layer at a time.
    """
    size, hidden, inner = ITEM_BYTES[precision], config.hidden_size, config.intermediate_size
    mask = (2 if on_cpu else 1) * (config.hidden_dropout > 0)  # bytes per element of a dropout mask
    # Inputs of the four products and the two norms share tensors: 5 x hidden; queries, keys, values: 3 x hidden.
    # The feed-forward network stores the input and output of its activation; ReLU needs its output only.
    kept = 8 * hidden + (4 if config.gated else 1 if config.hidden_act == "relu" else 2) * inner
    layer = kept * size + 2 * hidden * mask
    embeddings = hidden * (4 * config.embedding_norm + mask)  # the sum before the norm, if any, is float32
    weights = [_weight_bytes(config, length, depth, size, on_cpu) for depth in range(config.num_hidden_layers)]
    if recomputed:
        return config.num_hidden_layers * hidden * size + layer + max(weights, default=0.0) + embeddings
    return config.num_hidden_layers * layer + embeddings + sum(weights)


def _weight_bytes(config: ModelConfig, length: int, depth: int, size: int, on_cpu: bool) -> float:
    """Bytes of attention weights of one layer per token; 0 with the fused kernel, which does not store them."""
    has_dropout = config.attention_dropout > 0
    fused_from = FUSED_FROM_HALF if size < 4 else FUSED_FROM
    if not on_cpu or (not has_dropout and length >= fused_from):
        return 0.0
    seen = float(length) if config.attention == "causal" else keys_seen(config, length, depth)
    return config.num_attention_heads * seen * ((2 * size + 2) if has_dropout else size)
