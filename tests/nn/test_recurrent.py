"""The BiLSTM over packed sequences: each reads itself alone, from both ends."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.nn.recurrent import BiLstm
from nn.packs import draw


def filled(num_layers: int = 1, seed: int = 3) -> BiLstm:
    network = BiLstm(4, 5, num_layers).eval()
    network.initialise(torch.Generator().manual_seed(seed))
    return network.double()


@settings(max_examples=25)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(1, 2))
def test_a_pack_gives_what_its_sequences_give_one_by_one(lengths: list[int], num_layers: int):
    network, vectors = filled(num_layers), draw(sum(lengths), 4, seed=1)
    together = network(vectors, lengths)
    apart = [network(part, [len(part)]) for part in vectors.split(lengths)]
    assert together.shape == (sum(lengths), network.output_size)
    torch.testing.assert_close(together, torch.cat(apart))


def test_the_order_of_the_sequences_does_not_matter():
    network, parts = filled(), [draw(length, 4, seed=length) for length in (5, 2, 7)]
    there = network(torch.cat(parts), [5, 2, 7]).split([5, 2, 7])
    back = network(torch.cat(parts[::-1]), [7, 2, 5]).split([7, 2, 5])
    for one, other in zip(there, back[::-1], strict=True):
        torch.testing.assert_close(one, other)


def test_it_equals_torch_on_one_padded_sequence():
    network, vectors = filled(), draw(6, 4, seed=2)
    expected, _ = network.lstm(vectors.unsqueeze(1))
    torch.testing.assert_close(network(vectors, [6]), expected.squeeze(1))


def test_each_direction_sees_its_own_side_alone():
    network, vectors = filled(), draw(6, 4, seed=2)
    changed = vectors.clone()
    changed[3] += 1.0
    before, after = network(vectors, [6]), network(changed, [6])
    same = (before == after).all(dim=1)
    forward, backward = (before[:, :5] == after[:, :5]).all(dim=1), (before[:, 5:] == after[:, 5:]).all(dim=1)
    assert not same.any()
    assert forward.tolist() == [True] * 3 + [False] * 3
    assert backward.tolist() == [False] * 4 + [True] * 2


def test_building_it_draws_nothing_and_the_seed_decides_its_weights():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, same, other = filled(), filled(), filled(seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    vectors = draw(3, 4)
    assert torch.equal(one(vectors, [3]), same(vectors, [3]))
    assert not torch.equal(one(vectors, [3]), other(vectors, [3]))


def test_a_new_cell_remembers():
    bias = filled().lstm.bias_ih_l0
    assert bias.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
