"""Sparse attention and relative positions: rules, patterns, sums of the papers, published models."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.nn import positions as module
from maskwright.nn import sparse
from maskwright.nn.attention import Run, attend
from maskwright.nn.disentangled import DisentangledTerms, position_rows
from maskwright.nn.positions import KINDS, RelativeBias, RelativeVectors, attend_relative
from maskwright.nn.sparse import (
    BlockPattern,
    BlockSparse,
    PublishedBigBird,
    SlidingWindow,
    attend_sparse,
    big_bird,
    global_only,
    random_only,
    window_only,
)
from nn.costs import Largest
from nn.dense_mask import attend_masked
from nn.packs import draw, filled, places_with_holes, runs_of

HEAD_DIM = 4
rules = st.one_of(
    st.builds(
        BlockSparse,
        block_size=st.integers(1, 5),
        window_blocks=st.integers(0, 2),
        first_blocks=st.integers(0, 2),
        last_blocks=st.integers(0, 2),
        random_blocks=st.integers(0, 3),
        seed=st.integers(0, 5),
        layer=st.integers(0, 3),
    ),
    st.builds(global_only, st.integers(1, 5), st.integers(1, 2), st.integers(0, 1)),
    st.builds(random_only, st.integers(1, 5), st.integers(1, 3)),
    st.builds(SlidingWindow, st.integers(0, 12), st.integers(0, 5)),
    st.builds(PublishedBigBird, st.integers(1, 3), st.integers(1, 2), st.just(64), st.integers(0, 3), st.booleans()),
)
lengths = st.lists(st.integers(1, 40), min_size=1, max_size=4)
heads = st.sampled_from([1, 2, 3])


def pack(lengths, heads, seed=0):
    """Queries, keys and values: [tokens, 3 * heads * head_dim]."""
    return draw(sum(lengths), 3 * heads * HEAD_DIM, seed=seed)


def assert_same(one, other, atol=1e-11):
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=atol)
    for mine, reference in zip(one[1], other[1], strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=atol)


# -- the executor against a dense mask ---------------------------------------------------------------------------


@given(rules, lengths, heads)
def test_blocks_give_what_a_dense_mask_gives(rule, lengths, heads):
    qkv, runs = pack(lengths, heads), runs_of(lengths)
    assert_same(attend_sparse(qkv, runs, heads, rule, want_weights=True), attend_masked(qkv, runs, heads, rule))


@given(st.integers(0, 12), st.integers(0, 5), lengths, heads, st.sampled_from([-9.0, 0.5, 1.5]), st.booleans())
def test_global_tokens_attend_to_all_and_all_to_them(half_width, block_size, lengths, heads, least, drops):
    """With projections of their own; with dropout, here of nothing, other kernels compute them."""
    rule, runs = SlidingWindow(half_width, block_size), runs_of(lengths)
    qkv, other = (pack(lengths, heads, seed=seed).requires_grad_() for seed in (0, 1))
    marks = draw(sum(lengths), seed=2) > least
    settings = {"is_global": marks, "project_global": lambda: other}
    found = attend_sparse(qkv, runs, heads, rule, want_weights=True, **settings)
    expected = []
    for part, globally, mark in zip(*(one.split(lengths) for one in (qkv, other, marks)), strict=True):
        (near_q, near_k, near_v), (far_q, far_k, far_v) = (
            one.view(len(one), 3, heads, HEAD_DIM).permute(1, 2, 0, 3) for one in (part, globally)
        )  # each [heads, length, head_dim]
        at = torch.arange(len(part))
        allowed = ((at - at[:, None]).abs() <= half_width) | mark
        near = (near_q @ near_k.mT / HEAD_DIM**0.5).masked_fill(~allowed, -torch.inf).softmax(-1)
        far = (far_q @ far_k.mT / HEAD_DIM**0.5).softmax(-1)
        context = torch.where(mark[:, None], far @ far_v, near @ near_v)
        expected.append((context.transpose(0, 1).flatten(1), torch.where(mark[:, None], far, near)))
    assert_same(found, (torch.cat([one for one, _ in expected]), [two for _, two in expected]))
    slope = draw(*found[0].shape, seed=9)
    with (
        patch.object(sparse, "dropout", lambda x, _: x),
        patch("maskwright.nn.attention.dropout", lambda x, _: x),
        patch.object(sparse, "CACHED_SCORES", 50),
    ):
        whole = attend_sparse(qkv, runs, heads, rule, dropout_probability=drops / 2, **settings)[0]
        gradients = [
            torch.autograd.grad(context, (qkv, other), slope, allow_unused=True)
            for context in (whole, torch.cat([one for one, _ in expected]))
        ]
    for one, reference in zip(*gradients, strict=True):
        if one is not None:
            torch.testing.assert_close(one, reference, rtol=0, atol=1e-10)


@given(rules, lengths, heads)
def test_gradients_are_those_of_a_dense_mask(rule, lengths, heads):
    gradients = []
    for attention in (attend_sparse, attend_masked):
        qkv = pack(lengths, heads).requires_grad_()
        context = attention(qkv, runs_of(lengths), heads, rule)[0]
        context.backward(draw(*context.shape, seed=9))
        gradients.append(qkv.grad)
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-11)


@given(rules, st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(0, 99))
def test_holes_between_tokens_stay_unseen(rule, lengths, seed):
    qkv, runs, places = pack(lengths, 2), runs_of(lengths), places_with_holes(lengths, 31, seed)
    if isinstance(rule, BlockSparse) and rule.window_blocks is None:
        rule = replace(rule, window_blocks=0)
    rows = {"positions": places, "padded_length": 31}
    sparse = attend_sparse(qkv, runs, 2, rule, want_weights=True, **rows)
    assert_same(sparse, attend_masked(qkv, runs, 2, rule, **rows))


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
@settings(max_examples=25)
@given(rules, lengths)
def test_relative_positions_work_with_every_pattern(kind, rule, lengths):
    relative = filled(RelativeBias(8, 2, 20) if kind == "bias" else RelativeVectors(5, HEAD_DIM, kind))
    qkv, runs = pack(lengths, 2), runs_of(lengths)
    sparse = attend_sparse(qkv, runs, 2, rule, want_weights=True, relative=relative)
    assert_same(sparse, attend_masked(qkv, runs, 2, rule, relative=relative))


@given(lengths, heads, st.integers(1, 8))
def test_a_pattern_that_covers_all_is_full_attention(lengths, heads, block):
    qkv, runs = pack(lengths, heads), runs_of(lengths)
    expected = attend(qkv, runs, heads, want_weights=True)
    for rule in (window_only(block, 40), global_only(block, 40, 0), SlidingWindow(39, block), big_bird(block, 40)):
        assert_same(attend_sparse(qkv, runs, heads, rule, want_weights=True), expected)


RULES = [big_bird(3, 1), window_only(3), global_only(3), random_only(3, 2), SlidingWindow(4, 3)]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_gradcheck(rule):
    qkv = pack([11], 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attend_sparse(x, [Run(0, 1, 11)], 2, rule)[0], [qkv])


@pytest.mark.parametrize("rule", RULES[:1], ids=str)
def test_gradcheck_with_dropout(rule):
    def run(qkv):
        torch.manual_seed(4)  # the same weights fall out each time
        return attend_sparse(qkv, [Run(0, 1, 11)], 2, rule, dropout_probability=0.4)[0]

    assert torch.autograd.gradcheck(run, [pack([11], 2).requires_grad_()])


def test_training_keeps_no_weights_and_no_gathered_keys():
    kept = []
    qkv = draw(1024, 3 * 16, dtype=torch.float32).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        attend_sparse(qkv, [Run(0, 1, 1024)], 2, big_bird(16, 3), dropout_probability=0.1)
    seen = 2 * 1024 * 8 * 16  # weights of all heads, rows and listed keys
    assert sum(one.numel() for one in kept if one.dtype == torch.float32) < seen
    assert sum(one.numel() * one.element_size() for one in kept) < 4 * seen  # what the weights alone would take


def test_holes_are_refused_where_a_token_might_see_nothing():
    places = {"positions": torch.arange(5) + 4}
    with pytest.raises(ConfigError, match="may not attend to itself"):
        attend_sparse(pack([5], 1), [Run(0, 1, 5)], 1, global_only(2, 1, 0), **places, padded_length=9)
    with pytest.raises(ConfigError, match="both"):
        attend_sparse(pack([5], 1), [Run(0, 1, 5)], 1, window_only(2), **places)


# -- patterns ----------------------------------------------------------------------------------------------------


def test_the_four_parts_of_the_papers_figure():
    assert window_only(1).pattern(5, 1).draw() == "##...\n###..\n.###.\n..###\n...##"
    assert global_only(1, 2, 0).pattern(4, 1).draw() == "####\n####\n##..\n##.."
    seen = random_only(1, 2).pattern(9, 1).block_map()
    assert seen.sum(-1).eq(2).all()
    together = big_bird(1, 2).pattern(16, 1).block_map()[0]
    inner = together[2:-2].sum(-1)
    assert inner.eq(1 + 3 + 2 + 1).all() and together[0].all() and together[:, -1].all()


@given(st.integers(7, 40), st.integers(1, 4), st.integers(0, 3), st.integers(0, 9))
def test_random_blocks_are_new_ones_and_a_function_of_their_key(num_blocks, num_random, layer, seed):
    rule = big_bird(2, num_random, seed, layer)
    pattern = rule.pattern(num_blocks, 3)
    base = big_bird(2, 0).pattern(num_blocks, 3).block_map()
    added = pattern.counts() - base.long()
    assert added.min() >= 0 and added.max() <= 1
    missing = (~base).sum(-1).expand(3, -1)
    assert torch.equal(added.sum(-1), missing.clamp(max=num_random))
    sparse._pattern.cache_clear()
    np.random.seed(num_blocks)
    torch.manual_seed(seed)
    again = big_bird(2, num_random, seed, layer).pattern(num_blocks, 3)
    assert torch.equal(again.counts(), pattern.counts())


def test_layers_seeds_and_heads_draw_differently():
    drawn = [big_bird(2, 3, seed, layer).pattern(64, 2).block_map() for seed, layer in ((0, 0), (1, 0), (0, 1))]
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0][0], drawn[0][1])


def test_the_window_of_modernbert():
    mask = pytest.importorskip("transformers.masking_utils").sliding_window_bidirectional_overlay(3)
    qkv = pack([20], 1)
    _, (weights,) = attend_sparse(qkv, [Run(0, 1, 20)], 1, SlidingWindow(3), want_weights=True)
    expected = torch.tensor([[bool(mask(0, 0, i, j)) for j in range(20)] for i in range(20)])
    assert torch.equal(weights[0] > 0, expected)


def test_rules_that_cannot_be_are_refused():
    for wrong in (
        lambda: BlockSparse(block_size=0),
        lambda: BlockSparse(random_blocks=-1),
        lambda: BlockSparse(4, None, 0, 0, 0),
        lambda: SlidingWindow(-1),
        lambda: PublishedBigBird(random_blocks=-1),
        lambda: PublishedBigBird(4, 3, 64, 0, True).pattern(11, 2),
    ):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ConfigError, match="has no key block: add at least one"):
        BlockPattern.from_map(torch.zeros(1, 2, 2, dtype=torch.bool), 4)


# -- BigBird as published ----------------------------------------------------------------------------------------


def big_bird_layer(config, layer, is_training):
    modeling = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    attention = modeling.BigBirdBlockSparseAttention(config, seed=layer).double()
    attention.train(is_training)
    return attention, modeling.BigBirdModel.create_masks_for_block_sparse_attn


SIZES = [(8, 4, 1, 64), (12, 4, 3, 64), (33, 2, 2, 128), (64, 16, 3, 4096), (16, 64, 3, 1024), (16, 64, 2, 4096)]


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(
    ("blocks", "block", "num_random", "longest", "padding"),
    [*((*sizes, "right") for sizes in SIZES), *((*sizes, way) for sizes in SIZES[1:3] for way in ("left", "holes"))],
)
def test_contexts_weights_and_gradients_are_those_of_big_bird(is_training, blocks, block, num_random, longest, padding):
    transformers = pytest.importorskip("transformers")
    num_heads, head_dim, layer, size = 2, 4, 3, blocks * block
    config = transformers.BigBirdConfig(
        hidden_size=num_heads * head_dim,
        num_attention_heads=num_heads,
        block_size=block,
        num_random_blocks=num_random,
        max_position_embeddings=longest,
    )
    attention, make_masks = big_bird_layer(config, layer, is_training)
    lengths = [size, size - block // 2 - 3 * block, size // 2]
    places = {
        "right": torch.cat([torch.arange(length) for length in lengths]),
        "left": torch.cat([torch.arange(size - length, size) for length in lengths]),
        "holes": places_with_holes(lengths, size),
    }[padding]
    rows = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))
    mask = torch.zeros(3, size, dtype=torch.float64)
    mask[rows, places] = 1.0
    padded = draw(3, size, 3 * num_heads * head_dim, seed=5).requires_grad_()
    query, key, value = padded.view(3, size, 3, num_heads, head_dim).permute(2, 0, 3, 1, 4)
    blocked, band, from_mask, to_mask = make_masks(mask, block)
    sizes = (num_heads, num_random, head_dim, block, block, 3, size, size)
    context, weights = attention.bigbird_block_sparse_attention(
        query, key, value, band, from_mask, to_mask, blocked, blocked, *sizes, layer, None, None
    )
    expected = context.reshape(3, size, -1)[rows, places]

    rule = PublishedBigBird(block, num_random, longest, layer, is_training)
    qkv = padded.detach()[rows, places].requires_grad_()
    arguments = {"padded_length": size} if padding == "right" else {"padded_length": size, "positions": places}
    ours, our_weights = attend_sparse(qkv, runs_of(lengths), num_heads, rule, want_weights=True, **arguments)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)

    upstream = draw(*expected.shape, seed=6)
    expected.backward(upstream)
    ours.backward(upstream)
    torch.testing.assert_close(qkv.grad, padded.grad[rows, places], rtol=0, atol=1e-10)
    # Its maps show a repeated block once; ours sum what it gets.
    counts = rule.pattern(blocks, num_heads).counts().expand(num_heads, -1, -1)
    for row, (one, place) in enumerate(zip(our_weights, places.split(lengths), strict=True)):
        times = counts[:, (place // block)[:, None], place // block].clamp(min=1)
        torch.testing.assert_close(one / times, weights[row][:, place[:, None], place], rtol=0, atol=1e-10)


# -- cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [SlidingWindow(16), PublishedBigBird(16, 3, is_training=True)], ids=str)
def test_no_operation_makes_a_tensor_of_length_by_length(rule):
    elements = []
    for length in (2048, 4096):
        qkv = draw(length, 3 * 8, dtype=torch.float32).requires_grad_()
        with Largest() as largest:
            attend_sparse(qkv, [Run(0, 1, length)], 1, rule)[0].sum().backward()
        elements.append(largest.elements)
    assert elements[1] <= 4096 * 4096 / 16
    assert elements[1] <= 2.1 * elements[0]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_working_in_parts_changes_nothing(monkeypatch, rule):
    lengths = [37, 37, 37, 20]
    qkv, runs = pack(lengths, 3), runs_of(lengths)
    whole = attend_sparse(qkv, runs, 3, rule, want_weights=True)
    for budget in (1, 3000):
        monkeypatch.setattr(sparse, "CACHED_SCORES", budget)
        assert_same(attend_sparse(qkv, runs, 3, rule, want_weights=True), whole)


# -- Relative positions ----------------------------------------------------------------------------------------------

few_lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)
HEADS = 2


def kinds():
    return {
        **{kind: filled(RelativeVectors(3, HEAD_DIM, kind)) for kind in KINDS},
        "bias": filled(RelativeBias(8, HEADS, 20)),
    }


def two_heads(lengths, seed=0):
    return draw(sum(lengths), 3 * HEADS * HEAD_DIM, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_the_sum_of_the_papers(kind):
    relative, length, reach = kinds()[kind], 7, 3
    qkv = two_heads([length])
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
@given(lengths=few_lengths, shift=st.integers(1, 1000))
def test_shifting_a_sentence_changes_nothing(kind, lengths, shift):
    qkv, runs, relative = two_heads(lengths), runs_of(lengths), kinds()[kind]
    places = torch.cat([torch.arange(length) for length in lengths])
    here = attend_relative(qkv, runs, HEADS, relative, want_weights=True, positions=places)
    there = attend_relative(qkv, runs, HEADS, relative, want_weights=True, positions=places + shift)
    side_by_side = attend_relative(qkv, runs, HEADS, relative, want_weights=True)
    for other in (there, side_by_side):
        torch.testing.assert_close(here[0], other[0], rtol=0, atol=1e-12)
        for one, two in zip(here[1], other[1], strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
@given(lengths=few_lengths)
def test_a_pack_is_its_sequences_one_by_one(kind, lengths):
    qkv, relative = two_heads(lengths), kinds()[kind]
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
    inputs = [two_heads([4, 4]).requires_grad_(), *relative.parameters()]

    def run(qkv, *parameters):  # the check moves the parameters in place
        return attend_relative(qkv, [Run(0, 2, 4)], HEADS, relative, positions=places)[0]

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("kind", [*KINDS, "bias"])
def test_relative_attention_in_parts_changes_nothing(monkeypatch, kind):
    qkv, relative = two_heads([5] * 7), kinds()[kind]
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
