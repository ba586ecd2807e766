"""Recurrent layers: the formulas equal torch's kernels, and batching does not affect a sequence."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.nn.recurrent import (
    CELL_NAMES,
    CELLS,
    CellWeights,
    PackedRecurrence,
    RecurrentLayer,
    RecurrentStack,
    gru_step,
    unroll,
)
from nn.packs import draw

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def filled(cell: str = "lstm", num_layers: int = 1, reads: str = "both", seed: int = 3, **settings) -> RecurrentStack:
    network = RecurrentStack(cell, 4, 5, num_layers, reads=reads, **settings).eval()
    network.initialize(torch.Generator().manual_seed(seed))
    return network.double()


# -- formulas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_one_step_of_the_formula_is_one_step_of_the_kernel(cell: str):
    layer = filled(cell, reads="left").layers[0]
    x, before = draw(3, 4, seed=1), tuple(draw(3, 5, seed=2 + part) for part in range(CELLS[cell].num_states))
    own = tuple(part.unsqueeze(0) for part in before)
    _, expected = layer.kernel(x.unsqueeze(0), own if len(own) > 1 else own[0])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for part, other in zip(CELLS[cell].step(layer.weights(), x, before), expected, strict=True):
        torch.testing.assert_close(part, other[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("cell", CELL_NAMES)
@settings(max_examples=10, deadline=None)
@given(lengths=LENGTHS)
def test_the_unrolled_formula_reads_a_pack_as_the_kernel_does(cell: str, lengths: list[int]):
    network, vectors = filled(cell), draw(sum(lengths), 4, seed=1)
    found = network(vectors, lengths).layers[0].split(lengths)
    layer = network.layers[0]
    for part, outputs in zip(vectors.split(lengths), found, strict=True):
        if not len(part):
            continue
        for direction, own in ((0, part), (1, part.flip(0))):
            blank = tuple(state[0] for state in layer.blank(1, part))
            expected, _ = unroll(cell, layer.weights(direction), own.unsqueeze(1), blank)
            expected = expected.flip(0) if direction else expected
            torch.testing.assert_close(outputs[:, 5 * direction : 5 * direction + 5], expected[:, 0])


def test_a_gru_by_hand():
    weights = CellWeights(*(torch.tensor(values) for values in ([[1.0], [0.0], [2.0]], [[0.0], [0.0], [1.0]])),
                          torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.5]))  # fmt: skip
    (h,) = gru_step(weights, torch.tensor([[1.0]]), (torch.tensor([[0.4]]),))
    r, z = 1 / (1 + math.exp(-1.0)), 0.5
    assert h.item() == pytest.approx((1 - z) * math.tanh(2.0 + r * (0.4 + 0.5)) + z * 0.4, abs=1e-6)


# -- packs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELL_NAMES)
@pytest.mark.parametrize("reads", ["left", "both", "apart"])
@settings(max_examples=10, deadline=None)
@given(lengths=LENGTHS, num_layers=st.integers(1, 2), residual=st.booleans())
def test_a_pack_gives_what_its_sequences_give_one_by_one(cell, reads, lengths, num_layers, residual):
    network, vectors = filled(cell, num_layers, reads, residual=residual), draw(sum(lengths), 4, seed=1)
    together = network(vectors, lengths)
    alone = [network(part, [len(part)]) for part in vectors.split(lengths)]
    for depth in range(num_layers):
        assert together.layers[depth].shape == (sum(lengths), network.output_size)
        torch.testing.assert_close(together.layers[depth], torch.cat([one.layers[depth] for one in alone]))
    for number, states in enumerate(together.states):
        for part, state in enumerate(states):
            torch.testing.assert_close(state, torch.cat([one.states[number][part] for one in alone], dim=1))


@pytest.mark.parametrize("cell", CELL_NAMES)
@settings(max_examples=10, deadline=None)
@given(lengths=LENGTHS, share=st.floats(0, 1))
def test_a_text_that_is_cut_goes_on_with_what_was_remembered(cell: str, lengths: list[int], share: float):
    network, vectors = filled(cell, 2, "left"), draw(sum(lengths), 4, seed=1)
    whole = network(vectors, lengths)
    first = [round(share * length) for length in lengths]
    pairs = [part.split([cut, len(part) - cut]) for part, cut in zip(vectors.split(lengths), first, strict=True)]
    head = network(torch.cat([pair[0] for pair in pairs]), first)
    rest = [length - cut for length, cut in zip(lengths, first, strict=True)]
    tail = network(torch.cat([pair[1] for pair in pairs]), rest, head.states)
    ours = [torch.cat(both) for both in zip(head.layers[-1].split(first), tail.layers[-1].split(rest), strict=True)]
    torch.testing.assert_close(torch.cat(ours), whole.layers[-1])
    for one, other in zip(tail.states, whole.states, strict=True):
        torch.testing.assert_close(one, other)


# -- directions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["both", "apart"])
def test_each_direction_of_a_first_layer_sees_its_own_side_alone(reads: str):
    network, vectors = filled(reads=reads), draw(6, 4, seed=2)
    changed = vectors.clone()
    changed[3] += 1.0
    before, after = network(vectors, [6]).layers[-1], network(changed, [6]).layers[-1]
    same = (before == after).all(dim=1)
    forward, backward = (before[:, :5] == after[:, :5]).all(dim=1), (before[:, 5:] == after[:, 5:]).all(dim=1)
    assert not same.any()
    assert forward.tolist() == [True] * 3 + [False] * 3
    assert backward.tolist() == [False] * 4 + [True] * 2


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_from_the_right_is_from_the_left_over_the_text_turned(cell: str):
    left, right = RecurrentLayer(cell, 4, 5), RecurrentLayer(cell, 4, 5, "right")
    stack = RecurrentStack(cell, 4, 5)
    stack.layers[0] = left
    stack.initialize(torch.Generator().manual_seed(0))
    right.load_state_dict(left.state_dict())
    parts = [draw(length, 4, seed=length).float() for length in (3, 1, 4)]
    found, _ = right(torch.cat(parts), PackedRecurrence([3, 1, 4]))
    turned = stack(torch.cat([part.flip(0) for part in parts]), [3, 1, 4]).layers[0]
    torch.testing.assert_close(found, torch.cat([part.flip(0) for part in turned.split([3, 1, 4])]))


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_stacked_layers_equal_torch_on_one_padded_sequence(cell: str):
    network, vectors = filled(cell, 2), draw(6, 4, seed=2)
    kind = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell]
    plain = kind(4, 5, 2, bidirectional=True).double()
    own = {
        name.replace("_l0", f"_l{number}"): value
        for number, layer in enumerate(network.layers)
        for name, value in layer.kernel.state_dict().items()
    }
    plain.load_state_dict(own)
    expected, _ = plain(vectors.unsqueeze(1))
    torch.testing.assert_close(network(vectors, [6]).layers[-1], expected.squeeze(1))


def test_dropout_falls_between_layers_in_training_only():
    network, vectors = filled(num_layers=2, dropout_rate=0.5).train(), draw(6, 4)
    one, other = network(vectors, [6]), network(vectors, [6])
    assert torch.equal(one.layers[0], other.layers[0])
    assert not torch.equal(one.layers[1], other.layers[1])
    network.eval()
    assert torch.equal(network(vectors, [6]).layers[1], network(vectors, [6]).layers[1])


def test_a_residual_layer_adds_to_what_it_reads():
    plain, residual = filled(num_layers=2), filled(num_layers=2, residual=True)
    vectors = draw(6, 4)
    one, other = plain(vectors, [6]), residual(vectors, [6])
    assert torch.equal(one.layers[0], other.layers[0])  # from 4 to 10 numbers: nothing to add to
    torch.testing.assert_close(other.layers[1], one.layers[1] + one.layers[0])


def test_a_new_cell_remembers():
    assert filled().layers[0].kernel.bias_ih_l0.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
    assert filled("gru").layers[0].kernel.bias_ih_l0.tolist() == [0.0] * 15
