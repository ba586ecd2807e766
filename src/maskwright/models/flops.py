"""Floating-point operations of a network, counted from its sizes: a multiplication and an addition are two.

Only matrix products count, as is usual: they are nearly all of the time. A token is multiplied by every entry of a
layer's matrices once, 2 operations each, and in attention by every key and every value that it sees, 2 x 2 x hidden
for each. The backward pass makes two products for each of the forward pass (for the input and for the weight), so
training costs three times the forward pass: with N entries 6N a token, and attention (Kaplan et al. 2020, section
2.1). Look-ups are free. The vocabulary is scored at the chosen positions only, and counted so.
"""

from __future__ import annotations

from .attending import pattern_of, rule_of
from .config import ModelConfig

TRAINING_PASSES = 3  # forward, and two products of the same size backward


def layer_entries(hidden: int, intermediate: int, *, gated: bool = False, cross: bool = False) -> int:
    """Entries of one layer's matrices: queries, keys, values, output; up, down, and the gate.

    cross: a decoder's layer that also attends to an encoder (Vaswani et al. 2017, section 3.2.3).
    """
    attention = 4 * hidden * hidden * (2 if cross else 1)
    return attention + (3 if gated else 2) * hidden * intermediate


def linear_flops(config: ModelConfig) -> int:
    """Of all layers and the projection of the word table, for one token forward. Shared layers count at every use."""
    layer = layer_entries(config.hidden_size, config.intermediate_size, gated=config.gated)
    projection = config.table_size * config.hidden_size if config.table_size != config.hidden_size else 0
    return 2 * (config.num_hidden_layers * layer + projection)


def attention_flops(config: ModelConfig, length: int) -> float:
    """Scores and weighted sums of all layers for one token of a sequence of `length`, forward; the mean of its tokens.

    What the rule of each layer lets a token see is counted, whether or not a kernel computes more.
    """
    return sum(4 * config.hidden_size * keys_seen(config, length, depth) for depth in range(config.num_hidden_layers))


def keys_seen(config: ModelConfig, length: int, depth: int = 0) -> float:
    """Keys that a token of a sequence of `length` sees in the layer at `depth`, the mean of its tokens."""
    if config.attention == "causal":
        return (length + 1) / 2
    rule = rule_of(config, depth, training=True)
    if rule is None:
        return float(length)
    if config.attention == "window":
        half = min(config.window_size // 2, length - 1)
        return (
            1 + (2 * half * length - half * (half + 1)) / length
        )  # of the tokens at the ends half a window is missing
    pattern = pattern_of(config, length, depth, training=True)
    if pattern is None or pattern.is_full:
        return float(length)
    blocks = pattern.counts().float().sum(-1).mean()  # of key blocks, the mean of heads and query blocks
    return min(float(blocks) * pattern.block_size, float(length))


def word_head_flops(config: ModelConfig) -> int:
    """Scoring the whole vocabulary at one position, forward."""
    dense = 0 if config.bare_heads else config.hidden_size * config.table_size
    return 2 * (dense + config.table_size * config.vocab_size)


def token_head_flops(config: ModelConfig) -> int:
    """Judging whether one token was replaced, forward."""
    return 2 * (config.hidden_size * config.hidden_size + config.hidden_size)


def sequence_head_flops(config: ModelConfig, num_outputs: int = 2) -> int:
    """The pooler (or a head's own dense layer), where there is one, and the outputs of one sequence, forward."""
    return 2 * config.hidden_size * ((0 if config.bare_heads else config.hidden_size) + num_outputs)
