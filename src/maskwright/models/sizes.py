"""Parameter count, floating-point operations and memory of a network, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..nn.attention import FUSED_FROM, FUSED_FROM_HALF
from .build import make_model
from .config import ModelConfig
from .decoder import decoder_config
from .pretraining_heads import most_scores
from .transformer import pattern_of, rule_of, window_of

# -- Parameter count of a configuration ------------------------------------------------------------------------------


def parameter_count(config: ModelConfig, head: str | None = None, labels: Sequence[str] | int | None = None) -> int:
    """Number of parameters of `build(config, head, labels=labels)`, computed without allocating memory."""
    with torch.device("meta"):
        return make_model(config, head, labels=labels).num_parameters


# -- Floating-point operations of a network, computed from its sizes: a multiply-add is two operations ---------------
#
# Only matrix products count, as is usual: they dominate the time. Each token is multiplied by every weight of a layer
# once, 2 operations each, and in attention by every visible key and value, 2 x 2 x hidden each. The backward pass has
# two products per product of the forward pass (for input and weight), so training costs three times the forward pass:
# 6N per token with N weights, plus attention (Kaplan et al. 2020, section 2.1). Look-ups are free. Vocabulary logits
# are counted at the predicted positions only.


TRAINING_PASSES = 3  # forward, and twice the cost backward


def layer_entries(hidden: int, intermediate: int, *, gated: bool = False, cross: bool = False) -> int:
    """Number of matrix weights of one layer: queries, keys, values, output; up, down, and the gate.

    cross: a decoder layer with cross-attention (Vaswani et al. 2017, section 3.2.3).
    """
    attention = 4 * hidden * hidden * (2 if cross else 1)
    return attention + (3 if gated else 2) * hidden * intermediate


def linear_flops(config: ModelConfig) -> int:
    """Forward FLOPs per token of all layers and the embedding projection. Shared layers count at every use."""
    layer = layer_entries(config.hidden_size, config.intermediate_size, gated=config.gated)
    heads = 2 * config.num_attention_heads + 2 * (config.num_key_value_heads or config.num_attention_heads)
    layer += config.hidden_size * (heads * config.head_dim - 4 * config.hidden_size)  # other sizes of attention
    layer += 2 * config.hidden_size * (config.hidden_size // config.adapter_reduction) if config.languages else 0
    projection = config.table_size * config.hidden_size if config.table_size != config.hidden_size else 0
    return 2 * (config.num_hidden_layers * layer + projection)


def text_flops(config: ModelConfig, length: int, target: int = 0) -> tuple[float, float]:
    """Forward FLOPs of all layers for one text of `length` tokens: of the linear layers, and of attention.

    target: tokens that the decoder of an encoder-decoder computes for it. Keys and values of cross-attention are
    computed for each source token, its queries and outputs for each target token.
    """
    linear, attention = float(length * linear_flops(config)), length * attention_flops(config, length)
    if target:
        decoder, layers, hidden = decoder_config(config), config.num_decoder_layers, config.hidden_size
        linear += target * linear_flops(decoder) + layers * 4 * hidden * hidden * (length + target)
        attention += target * (attention_flops(decoder, target) + layers * 4 * hidden * length)
    return linear, attention


def attention_flops(config: ModelConfig, length: int) -> float:
    """Forward FLOPs of the scores and weighted sums of all layers, per token of a sequence of `length` (mean).

    Counts the visible keys of each layer's attention pattern, even if a kernel computes more.
    """
    positions = 2 * min(length, config.position_buckets or config.relative_distance)  # whose vectors are multiplied
    terms = 2 * config.hidden_size * len(config.position_terms) * positions
    return sum(
        terms + 4 * config.attention_size * keys_seen(config, length, depth)
        for depth in range(config.num_hidden_layers)
    )


def keys_seen(config: ModelConfig, length: int, depth: int = 0) -> float:
    """Number of visible keys per token of a sequence of `length` in the layer at `depth` (mean over its tokens)."""
    if config.attention == "causal":
        return (length + 1) / 2
    rule = rule_of(config, depth, training=True)
    if rule is None:
        return float(length)
    if config.attention == "window":
        half = min(window_of(config, depth), length - 1)
        # Tokens at the ends have less than a full window.
        return 1 + (2 * half * length - half * (half + 1)) / length
    pattern = pattern_of(config, length, depth, training=True)
    if pattern is None or pattern.is_full:
        return float(length)
    blocks = pattern.counts().float().sum(-1).mean()  # key blocks, mean over heads and query blocks
    return min(float(blocks) * pattern.block_size, float(length))


def word_head_flops(config: ModelConfig) -> int:
    """Forward FLOPs of the vocabulary logits at one position, of the target if there is a decoder."""
    has_dense = config.mlm_dense and not config.bare_heads and not config.num_decoder_layers
    dense = config.hidden_size * config.decoder_size if has_dense else 0
    return 2 * (dense + config.decoder_size * config.target_vocab_size)


def token_head_flops(config: ModelConfig) -> int:
    """Forward FLOPs of replaced token detection for one token."""
    return 2 * (config.hidden_size * config.hidden_size + config.hidden_size)


def sequence_head_flops(config: ModelConfig, num_outputs: int = 2) -> int:
    """Forward FLOPs of the pooler (or dense layer), if any, and the outputs for one sequence."""
    return 2 * config.hidden_size * ((0 if config.bare_heads else config.hidden_size) + num_outputs)


# -- Memory estimate of a training step, computed from the sizes of the network --------------------------------------
#
# Weights, gradients and Adam's two moments are float32: 16 bytes per parameter. The forward pass stores the inputs of
# products, norms and activations for the backward pass; this grows with the tokens of a micro-batch. The counts follow
# the code in nn/ and models/ (tests compare them with torch's actual memory); Korthikanti et al. 2022, section 4.1,
# count a GPT layer the same way. In float32 on CPUs for which nn/native is compiled it takes less: attention stores no
# weights there, and dropout no masks.


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
        in_parts: Whether logits are computed in chunks (models/pretraining_heads.py).
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
    # Inputs of the four products and the two norms share tensors: 5 x hidden; queries, keys, values: 3 x attention.
    # The feed-forward network stores the input and output of its activation; ReLU needs its output only.
    kept = (
        4 * hidden
        + 4 * config.attention_size
        + (4 if config.gated else 1 if config.hidden_act == "relu" else 2) * inner
    )
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
