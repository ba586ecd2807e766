"""Recurrent layers, alignment scores, the CRF and words from characters: formulas, and packs."""

import math
from itertools import product
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from maskwright.nn.attention import group_of
from maskwright.nn.crf import LinearChainCrf
from maskwright.nn.cross import Alignment, ScoreName
from maskwright.nn.embeddings import CharacterWords, words_of
from maskwright.nn.recurrent import (
    CELL_NAMES,
    CELLS,
    LEAST_FILLED,
    PackedRecurrence,
    RecurrentLayer,
    RecurrentStack,
    pack_whole_texts,
    unroll,
)
from nn.packs import draw

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def filled(cell="lstm", num_layers=1, reads="both", seed=3, **settings):
    network = RecurrentStack(cell, 4, 5, num_layers, reads=reads, **settings).eval()
    network.initialize(torch.Generator().manual_seed(seed))
    return network.double()


# -- formulas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_one_step_of_the_formula_is_one_step_of_the_kernel(cell):
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
def test_the_unrolled_formula_reads_a_pack_as_the_kernel_does(cell, lengths):
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
def test_a_text_that_is_cut_goes_on_with_what_was_remembered(cell, lengths, share):
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
def test_each_direction_of_a_first_layer_sees_its_own_side_alone(reads):
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
def test_from_the_right_is_from_the_left_over_the_text_turned(cell):
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
def test_stacked_layers_equal_torch_on_one_padded_sequence(cell):
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


def test_a_residual_layer_adds_to_what_it_reads():
    plain, residual = filled(num_layers=2), filled(num_layers=2, residual=True)
    vectors = draw(6, 4)
    one, other = plain(vectors, [6]), residual(vectors, [6])
    assert torch.equal(one.layers[0], other.layers[0])  # from 4 to 10 numbers: nothing to add to
    torch.testing.assert_close(other.layers[1], one.layers[1] + one.layers[0])


# -- Packs as recurrent kernels read them: arranged and collected they are what they were, and padding changes nothing


@given(lengths=LENGTHS, pads=st.booleans(), from_right=st.booleans())
def test_what_is_laid_is_collected_as_it_was(lengths, pads, from_right):
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
def test_the_gradient_goes_the_way_back(pads, from_right):
    reading = PackedRecurrence([2, 0, 3, 1], pads=pads)

    def there_and_back(vectors):
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
def test_padding_changes_no_output_and_no_gradient(cell, reads, lengths, residual):
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


# -- Scores of attention between two recurrent networks --------------------------------------------------------------


def score_of(score, size=2, seed=0):
    made, source = Alignment(score, size).double(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.7, generator=source)
    return made


def by_hand(score, own, h, c):
    """e of one query and one token, as the lectures write it."""
    both = torch.cat([h, c])
    if score == "dot":
        return h @ c
    if score == "bilinear":
        return h @ own.W.weight @ c
    if score == "mlp":
        return own.w_2.weight[0] @ torch.tanh(own.W_1.weight @ both)
    return torch.tanh(own.w_a.weight[0] @ both)


@pytest.mark.parametrize("score", get_args(ScoreName))
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), queries=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_score_is_its_formula_and_padding_takes_nothing(score, lengths, queries, seed):
    own, vectors = score_of(score, 3, seed), draw(sum(lengths), 3, seed=seed)
    asking = draw(len(lengths) * queries, 3, seed=seed + 1).view(len(lengths), queries, 3)
    context, weights = own(asking, own.prepare(vectors, group_of(lengths)))
    for text, part in enumerate(vectors.split(lengths)):
        for number, h in enumerate(asking[text]):
            e = torch.stack([by_hand(score, own, h, c) for c in part])
            a = torch.softmax(e, dim=0)
            torch.testing.assert_close(weights[text, number, : len(part)], a)
            assert not weights[text, number, len(part) :].any()
            torch.testing.assert_close(context[text, number], (a[:, None] * part).sum(dim=0))


def test_one_layer_alone_cannot_tell_tokens_far_apart():
    own, vectors = score_of("additive", 4), 50 * draw(6, 4)
    with torch.no_grad():
        _, weights = own(draw(1, 4).view(1, 1, 4), own.prepare(vectors, group_of([6])))
    assert float(weights.max() / weights.min()) <= math.exp(2) + 1e-9


# -- The CRF against every sequence of tags, written out -------------------------------------------------------------


def lively(labels, seed):
    crf = LinearChainCrf(labels)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(0, 1, generator=generator)
    return crf


def every_path(crf, emissions, begins=True, ends=True):
    """The score of each sequence of tags. emissions: float [words, labels]."""
    words, labels = emissions.shape
    scores = {}
    for path in product(range(labels), repeat=words):
        score = sum(emissions[place, tag] for place, tag in enumerate(path))
        score = score + sum(crf.transitions[one, other] for one, other in zip(path, path[1:], strict=False))
        score = score + (crf.start[path[0]] if begins else 0.0) + (crf.end[path[-1]] if ends else 0.0)
        scores[path] = score
    return scores


lengths_of_chains = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(lengths_of_chains, st.integers(2, 3), st.integers(0, 99), st.data())
def test_losses_and_best_scores_are_those_of_all_paths(lengths, labels, seed, data):
    crf = lively(labels, seed).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed + 1)
    emissions = torch.randn(sum(lengths), labels, generator=generator)
    tags = torch.randint(labels, (sum(lengths),), generator=generator)
    edges = st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))
    begins, ends = data.draw(edges), data.draw(edges)
    losses = crf.losses(emissions, tags, lengths, torch.tensor(begins), torch.tensor(ends))
    best = crf.best_scores(emissions, lengths)
    start = 0
    for number, length in enumerate(lengths):
        own = emissions[start : start + length]
        scores = every_path(crf, own, begins[number], ends[number])
        wanted = torch.stack(list(scores.values())).logsumexp(0) - scores[tuple(tags[start : start + length].tolist())]
        torch.testing.assert_close(losses[number], wanted, rtol=1e-4, atol=1e-4)
        whole = every_path(crf, own)
        winner = max(whole, key=lambda path: float(whole[path]))
        for place in range(length):
            for tag in range(labels):
                through = max(float(score) for path, score in whole.items() if path[place] == tag)
                assert float(best[start + place, tag]) == pytest.approx(through, abs=1e-4)
        assert best[start : start + length].argmax(dim=1).tolist() == list(winner)
        start += length


def test_the_gradient_is_that_of_small_steps():
    crf = lively(3, 5).double()
    tags = torch.tensor([0, 2, 1, 1, 0])
    names = [name for name, _ in crf.named_parameters()]

    def loss(emissions, *parameters):
        chosen = dict(zip(names, parameters, strict=True))
        arguments = (emissions, tags, [3, 2], torch.tensor([True, False]), torch.tensor([True, True]))
        return functional_call(Losses(crf), {f"crf.{name}": value for name, value in chosen.items()}, arguments).sum()

    inputs = [torch.randn(5, 3).double(), *(value.detach().clone() for value in crf.parameters())]
    assert torch.autograd.gradcheck(loss, [value.requires_grad_() for value in inputs])


class Losses(nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, *arguments):
        return self.crf.losses(*arguments)


def test_a_chain_without_words_is_left_out():
    crf = lively(2, 1)
    emissions = torch.randn(3, 2)
    assert torch.equal(crf.best_scores(emissions, [0, 3, 0]), crf.best_scores(emissions, [3]))
    assert crf.best_scores(emissions[:0], [0]).shape == (0, 2)


def test_a_primed_crf_knows_which_tags_follow_and_begin():
    crf = LinearChainCrf(3)  # O, B, I: I follows only B
    crf.init_from_counts(torch.tensor([0, 1, 2, 0] * 50 + [1, 2] * 20), [4] * 50 + [2] * 20)
    assert crf.transitions[1, 2] > 0 > crf.transitions[0, 2]
    assert crf.start[2] < crf.start[1]
    emissions = torch.tensor([[0.0, -1.0, 0.5]])  # alone, I would win
    assert crf.best_scores(emissions, [1]).argmax().item() != 2


# -- Words from characters -------------------------------------------------------------------------------------------

SPACE = 5
TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=12), min_size=1, max_size=4)


def pack(texts):
    return torch.tensor([id for text in texts for id in text], dtype=torch.int64), [len(text) for text in texts]


def words_part(width=3):
    part = CharacterWords(4, 9, width)
    generator = torch.Generator().manual_seed(2)
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, 0, 0.5, generator=generator)
    return part.double()


def test_words_are_runs_of_characters_and_special_tokens_stand_alone():
    ids, lengths = pack([[2, 7, 8, 5, 9, 3], [5, 6, 1, 7], []])
    found = words_of(ids, lengths, SPACE)
    assert found.of_token.tolist() == [0, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    assert found.lengths == [4, 4, 0]
    assert found.is_space.tolist() == [False, False, False, True, False, False, False, False, False, False]


@given(TEXTS)
def test_a_word_is_the_same_alone_and_among_others(texts):
    ids, lengths = pack(texts)
    found, part, table = words_of(ids, lengths, SPACE), words_part(), draw(13, 4, seed=1)
    vectors = part(table[ids], found)
    assert vectors.shape == (sum(found.lengths), 9)
    for word in range(len(vectors)):
        own = ids[(found.of_token == word) & ~found.is_space]
        alone = part(table[own], words_of(own, [len(own)], SPACE))
        torch.testing.assert_close(vectors[word : word + 1], alone)


def test_by_hand_a_convolution_over_neighbors_in_the_word_and_max_pooling():
    part = words_part(2)
    with torch.no_grad():
        part.gate.weight.zero_()
        part.gate.bias.fill_(-100.0)  # the highway lets everything pass
    ids, lengths = pack([[7, 8, 5, 9]])
    table = draw(13, 4, seed=1)
    vectors = part(table[ids], words_of(ids, lengths, SPACE))
    one, two = part.filters
    singles = torch.stack([one(table[id]) for id in (7, 8)]).amax(0)
    blank = torch.zeros(4, dtype=torch.float64)
    pairs = torch.stack([two(torch.cat([table[7], table[8]])), two(torch.cat([table[8], blank]))]).amax(0)
    torch.testing.assert_close(vectors[0], torch.tanh(torch.cat([singles, pairs])))
