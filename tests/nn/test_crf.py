"""The CRF against every sequence of tags, written out."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from maskwright.nn.crf import LinearChainCrf


def lively(labels: int, seed: int) -> LinearChainCrf:
    crf = LinearChainCrf(labels)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(0, 1, generator=generator)
    return crf


def every_path(crf: LinearChainCrf, emissions: torch.Tensor, begins: bool = True, ends: bool = True) -> dict:
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
    """A CRF whose call is its losses."""

    def __init__(self, crf: LinearChainCrf) -> None:
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
