"""Adds tokens to a model's vocabulary: new embedding rows start at the mean of the existing ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ..core.randomness import derive_seed
from .build import make_model
from .encoder_decoder import EncoderDecoder
from .model import Model

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

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
    grown.tokenizer, grown.sentence = tokenizer, model.sentence
    if isinstance(model, EncoderDecoder) and isinstance(grown, EncoderDecoder):
        grown.target_tokenizer = model.target_tokenizer
    grown.compute_dtype = model.compute_dtype
    return grown.to(model.word_embeddings.device).train(model.training)
