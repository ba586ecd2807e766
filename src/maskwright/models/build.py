"""Builds models from configurations."""

from __future__ import annotations

from collections.abc import Sequence

from .config import ModelConfig
from .encoder_decoder import EncoderDecoder
from .initialization import initialize
from .model import Model


def make_model(
    config: ModelConfig,
    head: str | None = None,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    with_pooler: bool | None = None,
) -> Model:
    """Returns a model without initialized parameters; an EncoderDecoder if the configuration has a decoder."""
    if config.num_decoder_layers:
        return EncoderDecoder(config, head, labels=labels)
    return Model(config, head, labels=labels, problem_type=problem_type, with_pooler=with_pooler)


def build(
    config: ModelConfig,
    head: str | None = None,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    seed: int = 0,
) -> Model:
    """Returns a model with random weights, initialized as published; the same seed gives the same weights.

    Args:
        config: Sizes and settings.
        head: Name of a head, such as "mlm", "pretraining" or "classification"; None for the encoder with its pooler.
        labels: Labels of a classification head, or their number.
        problem_type: As in transformers; None for one class per text.
        seed: Random seed.

    Raises:
        ConfigError: If the head is unknown.
    """
    model = make_model(config, head, labels=labels, problem_type=problem_type)
    is_gpt = config.attention == "causal" and config.recurrent is None
    initialize(model, config.initializer_range, seed, truncated=not is_gpt)
    return model
