"""Small objectives, documents and models that the laws of objectives share."""

import numpy as np
import torch

from maskwright.core import registry
from maskwright.core.randomness import generator
from maskwright.models.config import ModelConfig
from maskwright.objectives.base import Objective
from maskwright.objectives.masked import MaskedRecipe, Masker
from maskwright.objectives.segments import sentence_bounds

CLS, SEP, MASK, FIRST_WORD, VOCAB = 1, 2, 3, 5, 100
CONFIG = ModelConfig(
    vocab_size=VOCAB,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=24,
)


class Documents:
    """Six documents of some sentences, the same every time."""

    def __init__(self):
        rng = np.random.default_rng(5)
        self.lengths = [rng.integers(3, 9, size=rng.integers(2, 6)) for _ in range(6)]
        self.tokens = [rng.integers(FIRST_WORD, VOCAB, size=lengths.sum()) for lengths in self.lengths]

    def document_tokens(self, document):
        return self.tokens[document]


def objective_of(name, **recipe):
    masker = Masker(MASK, frozenset(range(FIRST_WORD)), VOCAB)
    made: Objective = registry.resolve("objective", name)(MaskedRecipe.of(CLS, SEP, masker, 20, **recipe))
    return made


def batch_of(objective, seed=0):
    documents = Documents()
    bounds = {number: sentence_bounds(lengths) for number, lengths in enumerate(documents.lengths)}
    examples = objective.plan(bounds, generator(seed, "examples"))
    return objective.batch(documents, examples, generator(seed, "batch"))


def lively(objective, spread=0.2):
    """The objective's network with every parameter drawn, out of training mode."""
    model = objective.network(CONFIG, 0).eval()
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, spread, generator=draws)
    return model
