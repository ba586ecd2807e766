"""A tokenizer and tiny models with random weights, made once for all tests of inference and estimators."""

from functools import cache

from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the cat sat on the mat .",
    "dogs chase cats in the garden",
    "a",
    "an unbelievably long sentence about cats , dogs , mats and gardens that goes on and on , and then ends .",
    "rain fell",
    "",
    "she bought a gallon of milk at the store",
    "penguins are flightless birds !",
    "the the the the the",
    "Ünïcödé — naïve café 🙂 テスト",
]


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train_from_iterator(iter(TEXTS * 3), kind="wordpiece", vocab_size=150)


def tiny(head: str | None = None, seed: int = 1, **options) -> Model:
    """Four layers of 32, with weights large enough that tokens matter."""
    config = ModelConfig(
        vocab_size=len(tokenizer()),
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=48,
        initializer_range=0.2,
    )
    model = build(config, head, seed=seed, **options)
    model.tokenizer = tokenizer()
    return model.eval()
