"""Compression without training: what is the same, what is smaller, and what is rejected."""

from __future__ import annotations

import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.lessons.small import small_network
from maskwright.train.distillation.measure import factorize_words, share_layers

BATCH = Batch.from_sequences([[2, 9, 11, 17, 3], [2, 5, 3]])


def hidden(model) -> torch.Tensor:
    return model.encode(BATCH).hidden.detach()


def test_a_factorized_table_is_close_and_smaller_and_exact_at_its_own_rank():
    model = small_network(200)
    table = model.encoder.embeddings.word.weight
    smaller = factorize_words(model, 8)
    assert torch.linalg.matrix_rank(smaller.word_embeddings) == 8
    best = torch.linalg.svdvals(table)[8:].square().sum().sqrt()
    gap = (smaller.word_embeddings - table).norm()
    assert torch.isclose(gap, best, rtol=1e-3), "no table of this rank is closer"
    with torch.no_grad():
        table.copy_(smaller.word_embeddings)
    assert torch.allclose(hidden(factorize_words(model, 8)), hidden(model), atol=1e-4)


def test_layers_that_are_alike_may_share_their_weights():
    model = small_network(40, num_hidden_layers=3)
    with torch.no_grad():
        for name, parameter in model.encoder.layers[0].named_parameters():
            for other in model.encoder.layers[1:]:
                other.get_parameter(name).copy_(parameter)
    shared = share_layers(model)
    one = sum(parameter.numel() for parameter in model.encoder.layers[0].parameters())
    assert model.num_parameters - shared.num_parameters == 2 * one
    assert torch.allclose(hidden(shared), hidden(model), atol=1e-5)


def test_what_cannot_be_compressed_again_is_refused():
    with pytest.raises(InputError, match="two layers"):
        share_layers(small_network(40, num_hidden_layers=1))
    with pytest.raises(InputError, match="already factorized"):
        factorize_words(small_network(40, embedding_size=8), 4)
    with pytest.raises(InputError, match="rank of 32"):
        factorize_words(small_network(40), 32)
