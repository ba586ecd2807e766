"""Small untrained networks and tokenizers for lessons; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..models.build import build
from ..models.config import ModelConfig
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.tokenizers.tokenizer import Tokenizer

SPREAD = 0.25  # of first weights: wide enough for attention that differs from token to token


def word_tokenizer(*texts: str, lowercase: bool = True) -> Tokenizer:
    """Return a tokenizer whose vocabulary is exactly the words of these texts."""
    return Tokenizer.train_from_iterator(texts, "word", 10_000, lowercase=lowercase)


def small_network(
    vocabulary: int | Tokenizer, head: str | None = None, *, labels: Sequence[str] | None = None, **changes: Any
) -> Model:
    """Build a network of two layers, width 32 and four heads, in evaluation mode, without gradients.

    vocabulary: its size, or the tokenizer of the network; labels: of a classifier; changes: fields of ModelConfig.
    """
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": SPREAD,
    }
    tokenizer = vocabulary if isinstance(vocabulary, Tokenizer) else None
    size = vocabulary if isinstance(vocabulary, int) else vocabulary.vocab_size
    model = build(ModelConfig(vocab_size=size, **(sizes | changes)), head, labels=labels).eval().requires_grad_(False)
    model.tokenizer = tokenizer
    return model


def small_translator(vocab_size: int = 30) -> EncoderDecoder:
    """Build a similar encoder-decoder, whose targets begin with token 0."""
    switches: dict[str, Any] = {
        "type_vocab_size": 0,
        "pooler": False,
        "decoder_start_token_id": 0,
        "positions": "sinusoidal",
    }
    made = small_network(vocab_size, "seq2seq", num_decoder_layers=2, **switches)
    assert isinstance(made, EncoderDecoder)
    return made
