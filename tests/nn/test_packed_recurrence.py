"""Packs as recurrent kernels read them: arranged and collected they are what they were, and padding changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.nn.recurrent import CELL_NAMES, LEAST_FILLED, PackedRecurrence, RecurrentStack, pack_whole_texts
from nn.packs import draw

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


@given(lengths=LENGTHS, pads=st.booleans(), from_right=st.booleans())
def test_what_is_laid_is_collected_as_it_was(lengths: list[int], pads: bool, from_right: bool):
    reading, vectors = PackedRecurrence(lengths, pads=pads), draw(sum(lengths), 3, seed=1)
    arranged = reading.to_kernel_layout(vectors, from_right=from_right)
    assert torch.equal(reading.from_kernel_layout(arranged, from_right=from_right), vectors)


def test_a_padded_block_by_hand():
    a, b, c = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[4.0]]), torch.tensor([[5.0], [6.0]])
    reading = PackedRecurrence([3, 0, 1, 2], pads=True)
    assert reading.pads and reading.rows is not None and reading.rows.tolist() == [0, 2, 3]
    pack = torch.cat([a, b, c])
    assert reading.to_kernel_layout(pack).squeeze(2).tolist() == [[1, 4, 5], [2, 0, 6], [3, 0, 0]]
    from_right = reading.to_kernel_layout(pack, from_right=True)
    assert from_right.squeeze(2).tolist() == [[3, 4, 6], [2, 0, 5], [1, 0, 0]]
    assert torch.equal(reading.turn(reading.to_kernel_layout(pack)), from_right)


@pytest.mark.parametrize("from_right", [False, True])
@pytest.mark.parametrize("pads", [False, True])
def test_the_gradient_goes_the_way_back(pads: bool, from_right: bool):
    reading = PackedRecurrence([2, 0, 3, 1], pads=pads)

    def there_and_back(vectors: torch.Tensor) -> torch.Tensor:
        arranged = reading.to_kernel_layout(vectors, from_right=from_right)
        return reading.from_kernel_layout(
            arranged * (reading.turn(arranged) if pads else arranged), from_right=from_right
        )

    vectors = draw(6, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(there_and_back, vectors)
    assert torch.autograd.gradgradcheck(there_and_back, vectors)


@pytest.mark.parametrize("cell", CELL_NAMES)
@pytest.mark.parametrize("reads", ["left", "both", "apart"])
@settings(max_examples=15, deadline=None)
@given(lengths=LENGTHS.filter(sum), residual=st.booleans())
def test_padding_changes_no_output_and_no_gradient(cell, reads, lengths: list[int], residual: bool):
    network = RecurrentStack(cell, 4, 4, 2, reads=reads, residual=residual)
    network.initialize(torch.Generator().manual_seed(3))
    network.double()
    with torch.no_grad():
        before = network(draw(len(lengths), 4, seed=5), [1] * len(lengths)).states
    pair = []
    for pads in (False, True):
        vectors = draw(sum(lengths), 4, seed=1).requires_grad_()
        network.zero_grad()
        read = network(vectors, PackedRecurrence(lengths, pads=pads), before)
        sum(layer.square().sum() for layer in read.layers).backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in network.parameters()]
        pair.append([*(layer.detach() for layer in read.layers), vectors.grad, *grads])
    for packed, padded in zip(*pair, strict=True):
        torch.testing.assert_close(padded, packed)


def test_nothing_is_padded_where_it_would_be_mostly_zeros_or_where_the_end_is_wanted():
    assert PackedRecurrence([10, 8, 9], pads=True).pads
    assert not PackedRecurrence([10, 8, 9]).pads
    assert not PackedRecurrence([10, 10], pads=True).pads
    rows = int(1 / LEAST_FILLED) + 2
    assert not PackedRecurrence([100, *[1] * rows], pads=True).pads
    assert pack_whole_texts([3, 2], "cpu", "lstm").pads
    assert not pack_whole_texts([3, 2], "cpu", "gru").pads
