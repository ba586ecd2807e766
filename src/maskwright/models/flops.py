"""Floating-point operations of a network, computed from its sizes: a multiply-add is two operations.

Only matrix products count, as is usual: they dominate the time. Each token is multiplied by every weight of a layer
once, 2 operations each, and in attention by every visible key and value, 2 x 2 x hidden each. The backward pass has two
products per product of the forward pass (for input and weight), so training costs three times the forward pass: 6N per
token with N weights, plus attention (Kaplan et al. 2020, section 2.1). Look-ups are free. Vocabulary logits are counted
at the predicted positions only.
"""

from __future__ import annotations

from .attention_rules import pattern_of, rule_of
from .config import ModelConfig
from .decoder import decoder_config

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
    return sum(4 * config.hidden_size * keys_seen(config, length, depth) for depth in range(config.num_hidden_layers))


def keys_seen(config: ModelConfig, length: int, depth: int = 0) -> float:
    """Number of visible keys per token of a sequence of `length` in the layer at `depth` (mean over its tokens)."""
    if config.attention == "causal":
        return (length + 1) / 2
    rule = rule_of(config, depth, training=True)
    if rule is None:
        return float(length)
    if config.attention == "window":
        half = min(config.window_size // 2, length - 1)
        # Tokens at the ends have less than a full window.
        return 1 + (2 * half * length - half * (half + 1)) / length
    pattern = pattern_of(config, length, depth, training=True)
    if pattern is None or pattern.is_full:
        return float(length)
    blocks = pattern.counts().float().sum(-1).mean()  # key blocks, mean over heads and query blocks
    return min(float(blocks) * pattern.block_size, float(length))


def word_head_flops(config: ModelConfig) -> int:
    """Forward FLOPs of the vocabulary logits at one position, of the target if there is a decoder."""
    dense = 0 if config.bare_heads or config.num_decoder_layers else config.hidden_size * config.table_size
    return 2 * (dense + config.table_size * config.target_vocab_size)


def token_head_flops(config: ModelConfig) -> int:
    """Forward FLOPs of replaced token detection for one token."""
    return 2 * (config.hidden_size * config.hidden_size + config.hidden_size)


def sequence_head_flops(config: ModelConfig, num_outputs: int = 2) -> int:
    """Forward FLOPs of the pooler (or dense layer), if any, and the outputs for one sequence."""
    return 2 * config.hidden_size * ((0 if config.bare_heads else config.hidden_size) + num_outputs)
