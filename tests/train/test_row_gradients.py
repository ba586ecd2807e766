"""Sparse look-up gradients train as dense ones do, and leave the model as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from maskwright.nn.embeddings import Table
from maskwright.train.optimizer import RowGradients, adamw

STEPS = ([3, 1, 3], [0, 2], [5, 5, 5, 1])


class Small(nn.Module):
    """A table, and if tied a product with it."""

    def __init__(self, tied):
        super().__init__()
        self.table, self.tied = Table(7, 4, padding_id=0), tied
        self.table.weight.data.copy_(torch.randn(7, 4, generator=torch.Generator().manual_seed(0)))

    def loss(self, ids):
        """A number that depends on the rows `ids`, each as often as it occurs."""
        rows = self.table(torch.tensor(ids))
        scale = torch.arange(1.0, 1 + rows.numel()).view_as(rows)
        made = (rows * scale).tanh().sum()
        return made + (rows @ self.table.weight.T).square().sum() if self.tied else made


def train(model, with_rows):
    """Three steps of two micro-batches each. Returns the gradients that the optimizer saw."""
    optimizer, seen = adamw(model, 0.1, 0.01), []
    with RowGradients.of(model) as rows:
        model.table.sparse_gradient &= with_rows
        for ids in STEPS:
            for part in (ids, ids[:1]):
                model.loss(part).backward()
            rows.spread()
            seen.append(model.table.weight.grad.clone())
            optimizer.step()
            rows.clear()
            optimizer.zero_grad(set_to_none=True)
    return seen


@pytest.mark.parametrize("tied", [False, True])
def test_steps_are_those_of_dense_gradients(tied):
    sparse, dense = Small(tied), Small(tied)
    torch.testing.assert_close(train(sparse, True), train(dense, False), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(sparse.table.weight, dense.table.weight, rtol=1e-6, atol=1e-6)


def test_the_table_of_gradients_is_made_once_and_cleared():
    model = Small(tied=False)
    with RowGradients.of(model) as rows:
        addresses = set()
        for ids in STEPS:
            model.loss(ids).backward()
            assert model.table.weight.grad.is_sparse
            rows.spread()
            touched = model.table.weight.grad.any(dim=1).nonzero().flatten().tolist()
            assert set(touched) == set(ids) - {0}  # and nothing of earlier steps; 0 is padding
            addresses.add(model.table.weight.grad.data_ptr())
            rows.clear()
            assert model.table.weight.grad is None
        assert len(addresses) == 1


def test_a_model_that_is_no_longer_trained_gives_dense_gradients():
    model = Small(tied=False)
    train(model, True)
    model.loss([1]).backward()
    assert not model.table.weight.grad.is_sparse
