"""Builds models from configurations, initializes their weights, and adds tokens to their vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..core.randomness import derive_seed
from ..nn.embeddings import Table
from ..nn.layers import LayerNorm, Linear, ScalarMix
from ..nn.recurrent import fill_recurrent
from .config import ModelConfig
from .encoder_decoder import EncoderDecoder
from .model import Model

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Weight initialization as published: normal matrices and tables, biases 0, norm weights 1 ------------------------
#
# BERT uses a normal distribution with standard deviation `initializer_range`, truncated at two deviations
# (`truncated_normal_initializer` of the published code; transformers does not truncate). GPT-2 does not truncate, so
# its weights are 14% larger (docs/results/families.md). The row of the padding token is 0, as in transformers: it is
# never part of a pack, so it is not trained.
#
# The linear layers of a new classification head on a trained encoder are initialized by fan-in instead, with deviation
# 1 / sqrt(inputs) (LeCun et al. 1998, section 4.6), so that outputs have the scale of the inputs for every hidden size
# (docs/explanation/decisions/new-heads-by-width.md). Recurrent layers use `nn.recurrent.fill_recurrent`.


Draw = Callable[[nn.Module, Tensor, torch.Generator], object]  # initializes a matrix of a module in place


def initialize(module: nn.Module, initializer_range: float, seed: int, *, truncated: bool = True) -> None:
    """Initializes every parameter of `module` as published; truncated: matrices and tables at two deviations.

    Each parameter has its own generator, keyed by the seed and its name: the encoder of a seed is the same with every
    head, and torch's global generator is not used.
    """
    _fill(module, seed, lambda part, matrix, source: _published(part, matrix, initializer_range, source, truncated))


def initialize_new(
    module: nn.Module, names: Container[str], initializer_range: float, seed: int, *, by_width: bool
) -> None:
    """Initializes only the parameters `names` of a trained module; by_width: linear layers by fan-in."""

    def draw(part: nn.Module, matrix: Tensor, source: torch.Generator) -> None:
        if by_width and isinstance(part, Linear):
            matrix.normal_(0.0, matrix.shape[1] ** -0.5, generator=source)
        else:
            _published(part, matrix, initializer_range, source)

    _fill(module, seed, draw, names)


def _published(part: nn.Module, matrix: Tensor, usual: float, source: torch.Generator, truncated: bool = True) -> None:
    deviation = usual * (part.spread if isinstance(part, Linear | Table) else 1.0)
    if not truncated:
        matrix.normal_(0.0, deviation, generator=source)
        return
    nn.init.trunc_normal_(matrix, std=deviation, a=-2 * deviation, b=2 * deviation, generator=source)


@torch.no_grad()
def _fill(module: nn.Module, seed: int, draw: Draw, only: Container[str] | None = None) -> None:
    for name, part in module.named_modules():
        for field, parameter in part.named_parameters(recurse=False):
            if only is not None and f"{name}.{field}" not in only:
                continue
            source = torch.Generator().manual_seed(derive_seed(seed, f"weights {name}.{field}"))
            if isinstance(part, nn.RNNBase):
                fill_recurrent(part, field, parameter, source)
            elif (isinstance(part, LayerNorm) and field == "weight") or (
                isinstance(part, ScalarMix) and field == "scale"
            ):
                parameter.fill_(1.0)
            elif parameter.ndim == 1:
                parameter.zero_()
            else:
                draw(part, parameter, source)
                if isinstance(part, Table) and part.padding_id is not None:
                    parameter[part.padding_id] = 0.0


# -- Builds models from configurations -------------------------------------------------------------------------------


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


# -- Adds tokens to a model's vocabulary: new embedding rows start at the mean of the existing ones ------------------


WORDS = ("encoder.embeddings.word.weight", "head.decoder", "head.bias")  # parameters with one row per token


@torch.no_grad()
def with_tokenizer(model: Model, tokenizer: Tokenizer) -> Model:
    """Returns a model with rows for all tokens of `tokenizer`; the same model if it already has them.

    New rows are the mean of all others plus small random noise, so that new tokens differ from each other.
    """
    missing = tokenizer.vocab_size - model.config.vocab_size
    if missing <= 0:
        model.tokenizer = tokenizer
        return model
    config = replace(model.config, vocab_size=tokenizer.vocab_size)
    grown = make_model(
        config,
        model.head_name,
        labels=model.labels or None,
        problem_type=model.problem_type,
        with_pooler=model.has_pooler,
    )
    words = WORDS if config.decoder_vocab_size is None else WORDS[:1]  # the head belongs to the target vocabulary
    old = dict(model.named_parameters())
    for name, parameter in grown.named_parameters():
        part = old[name]
        if name not in words:
            parameter.copy_(part)
            continue
        mean = part.mean(dim=0, keepdim=True).expand(missing, *part.shape[1:])
        draws = torch.Generator().manual_seed(derive_seed(0, f"new rows of {name}"))
        moved = torch.randn(mean.shape, generator=draws).to(part.device) * (0.1 * config.initializer_range)
        parameter.copy_(torch.cat([part, mean + (moved if part.ndim > 1 else 0.0)]))
    grown.tokenizer, grown.sentence, grown.projection = tokenizer, model.sentence, model.projection
    if isinstance(model, EncoderDecoder) and isinstance(grown, EncoderDecoder):
        grown.target_tokenizer = model.target_tokenizer
    grown.compute_dtype = model.compute_dtype
    return grown.to(model.word_embeddings.device).train(model.training)
