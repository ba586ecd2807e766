"""Relative positions: the papers' sums, distances alone, and the buckets of published models."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.nn import positions as module
from maskwright.nn.attention import Run
from maskwright.nn.disentangled import DisentangledTerms, position_rows
from maskwright.nn.positions import KINDS, RelativeBias, RelativeVectors, attend_relative
from nn.packs import draw, filled, places_with_holes, runs_of

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)
HEADS, HEAD_DIM = 2, 4


def kinds():
    """One of each kind, filled."""
    return {
        **{kind: filled(RelativeVectors(3, HEAD_DIM, kind)) for kind in KINDS},
        "bias": filled(RelativeBias(8, HEADS, 20)),
    }


def pack(lengths, seed=0):
    """Queries, keys and values: [tokens, 3 * heads * head_dim]."""
    return draw(sum(lengths), 3 * HEADS * HEAD_DIM, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_the_sum_of_the_papers(kind):
    relative, length, reach = kinds()[kind], 7, 3
    qkv = pack([length])
    context, (weights,) = attend_relative(qkv, [Run(0, 1, length)], HEADS, relative, want_weights=True)
    query, key, value = qkv.view(length, 3, HEADS, HEAD_DIM).unbind(1)
    for head in range(HEADS):
        for i in range(length):
            rows = [min(max(j - i, -reach), reach) + reach for j in range(length)]
            scores = torch.stack(
                [
                    query[i, head] @ (key[j, head] + relative.key[row])
                    + (key[j, head] @ relative.key[row] if kind == "key_query" else 0)
                    for j, row in enumerate(rows)
                ]
            ) / math.sqrt(HEAD_DIM)
            expected = torch.softmax(scores, dim=0)
            torch.testing.assert_close(weights[head, i], expected, rtol=0, atol=1e-12)
            values = [
                value[j, head] + (relative.value[row] if kind == "key_value" else 0) for j, row in enumerate(rows)
            ]
            total = sum(weight * one for weight, one in zip(expected, values, strict=True))
            part = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
            torch.testing.assert_close(context[i, part], total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
@given(lengths=lengths, shift=st.integers(1, 1000))
def test_shifting_a_sentence_changes_nothing(kind, lengths, shift):
    qkv, runs, relative = pack(lengths), runs_of(lengths), kinds()[kind]
    places = torch.cat([torch.arange(length) for length in lengths])
    here = attend_relative(qkv, runs, HEADS, relative, want_weights=True, positions=places)
    there = attend_relative(qkv, runs, HEADS, relative, want_weights=True, positions=places + shift)
    side_by_side = attend_relative(qkv, runs, HEADS, relative, want_weights=True)
    for other in (there, side_by_side):
        torch.testing.assert_close(here[0], other[0], rtol=0, atol=1e-12)
        for one, two in zip(here[1], other[1], strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
@given(lengths=lengths)
def test_a_pack_is_its_sequences_one_by_one(kind, lengths):
    qkv, relative = pack(lengths), kinds()[kind]
    for positions in (None, places_with_holes(lengths, 30)):
        packed, _ = attend_relative(qkv, runs_of(lengths), HEADS, relative, positions=positions)
        places = [None] * len(lengths) if positions is None else positions.split(lengths)
        alone = [
            attend_relative(part, [Run(0, 1, len(part))], HEADS, relative, positions=place)[0]
            for part, place in zip(qkv.split(lengths), places, strict=True)
        ]
        torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
@pytest.mark.parametrize("with_places", [False, True])
def test_gradients_are_right(kind, with_places):
    relative = kinds()[kind]
    places = torch.tensor([0, 2, 3, 9, 0, 1, 2, 3]) if with_places else None
    inputs = [pack([4, 4]).requires_grad_(), *relative.parameters()]

    def run(qkv, *parameters):  # the check moves the parameters in place
        return attend_relative(qkv, [Run(0, 2, 4)], HEADS, relative, positions=places)[0]

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
def test_working_in_parts_changes_nothing(monkeypatch, kind):
    qkv, relative = pack([5] * 7), kinds()[kind]
    whole, _ = attend_relative(qkv, [Run(0, 7, 5)], HEADS, relative)
    monkeypatch.setattr(module, "CACHED_SCORES", HEADS * 25 * 3)
    parts, weights = attend_relative(qkv, [Run(0, 7, 5)], HEADS, relative, want_weights=True)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)
    assert len(weights) == 7


# -- buckets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (32, 20), (8, 16), (64, 1000)])
def test_buckets_are_those_of_t5_and_mpnet(num_buckets, max_distance):
    mpnet = pytest.importorskip("transformers.models.mpnet.modeling_mpnet").MPNetEncoder
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    line = torch.arange(-1100, 1101)
    ours = RelativeBias(num_buckets, HEADS, max_distance)._buckets(line)
    assert torch.equal(ours, mpnet.relative_position_bucket(line, num_buckets, max_distance))
    assert torch.equal(ours, t5._relative_position_bucket(line, True, num_buckets, max_distance))


def test_the_bias_is_that_of_mpnet():
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    config = transformers.MPNetConfig(hidden_size=8, num_attention_heads=HEADS, num_hidden_layers=1)
    encoder = modeling.MPNetEncoder(config).double()
    relative = filled(RelativeBias(32, HEADS))
    encoder.relative_attention_bias.weight.data.copy_(relative.weight.data)
    expected = encoder.compute_position_bias(torch.zeros(1, 40, 8))[0]
    query = torch.zeros(1, HEADS, 40, HEAD_DIM, dtype=torch.float64)
    terms = relative.score_terms(query, query, 1.0, None, slice(None))
    torch.testing.assert_close(terms, expected, rtol=0, atol=0)


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="Unknown kind"):
        RelativeVectors(4, 8, "values")
    with pytest.raises(ConfigError, match="above 0"):
        RelativeVectors(0, 8)
    with pytest.raises(ConfigError, match="buckets"):
        RelativeBias(6, 2)
    with pytest.raises(ConfigError, match="buckets"):
        RelativeBias(64, 2, 16)


@pytest.mark.parametrize("kind", ["bias", "key_value", "disentangled"])
def test_heads_one_after_the_other_give_the_same(kind, monkeypatch):
    """As in texts whose scores do not fit the cache: context, weights and gradients."""
    draws = torch.Generator().manual_seed(0)
    qkv = torch.randn(22, 3 * 12, generator=draws, dtype=torch.float64).requires_grad_()
    if kind == "bias":
        relative = RelativeBias(32, 4)
    elif kind == "key_value":
        relative = RelativeVectors(3, 3, "key_value")
    else:
        tables = (torch.randn(4, 10, 3, generator=draws, dtype=torch.float64) for _ in range(2))
        relative = DisentangledTerms(*tables, position_rows(5, 0, 8))
    if kind != "disentangled":
        for parameter in relative.double().parameters():
            torch.nn.init.normal_(parameter, generator=draws)
    found = []
    for most in (module.CACHED_SCORES, 1):
        monkeypatch.setattr(module, "CACHED_SCORES", most)
        context, weights = attend_relative(qkv, [Run(0, 2, 7), Run(14, 1, 8)], 4, relative, want_weights=True)
        found.append((context, *weights, *torch.autograd.grad(context.sin().sum(), qkv)))
    for whole, single in zip(*found, strict=True):
        torch.testing.assert_close(single, whole)
