"""Attention: the formula, the executors, one kernel for a pack, and what no sequence may do to another."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.data.batch import Batch
from maskwright.models import transformer as attending
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn import attention
from maskwright.nn import attention as varlen
from maskwright.nn.attention import (
    Group,
    Run,
    SelfAttention,
    SequenceOffsets,
    attend,
    attend_in_blocks,
    plan,
    scaled_dot_product,
    self_attention,
)
from maskwright.nn.positions import RelativeBias, RelativeVectors, attend_relative
from nn import packs
from nn.packs import draw, filled, places_with_holes, runs_of

# -- without parameters ------------------------------------------------------------------------------------------


def test_basic_self_attention_is_the_weighted_sum_of_the_formula():
    x = draw(4, 3)
    for i in range(4):
        scores = [float(torch.dot(x[i], x[j])) for j in range(4)]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(score) / total * x[j] for j, score in enumerate(scores))
        torch.testing.assert_close(self_attention(x)[i], expected)


# -- scaled dot product ------------------------------------------------------------------------------------------


def test_four_tokens_checked_by_hand():
    # d = 4, so the scale is 1/2. Query 0 is 2 * e0, keys are the unit vectors: scores 1, 0, 0, 0.
    query, key = 2 * torch.eye(4), torch.eye(4)
    value = torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 4]])
    context, weights = scaled_dot_product(query, key, value)
    own, other = math.e / (math.e + 3), 1 / (math.e + 3)
    expected = torch.full((4, 4), other) + (own - other) * torch.eye(4)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(context, expected @ value, rtol=0, atol=1e-6)


# -- executors over packs ----------------------------------------------------------------------------------------

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@given(lengths, st.sampled_from([1, 2, 4]))
def test_explicit_and_fused_agree_forward_and_backward(lengths, heads):
    x = draw(sum(lengths), 3 * 16)
    gradients, contexts = [], []
    for fused in (True, False):
        qkv = x.clone().requires_grad_()
        context, _ = attend(qkv, runs_of(lengths), heads, fused=fused)
        context.backward(draw(sum(lengths), 16, seed=9))
        contexts.append(context.detach())
        gradients.append(qkv.grad)
    torch.testing.assert_close(contexts[0], contexts[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-5)


@given(lengths)
def test_a_pack_is_its_sequences_one_by_one(lengths):
    x = draw(sum(lengths), 3 * 8, dtype=torch.float64)
    packed, _ = attend(x, runs_of(lengths), 2)
    alone = [attend(part, [Run(0, 1, len(part))], 2)[0] for part in x.split(lengths)]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-12)


def test_weights_come_one_per_sequence_in_order():
    lengths = [3, 3, 2, 5]
    x = draw(13, 3 * 8)
    context, weights = attend(x, runs_of(lengths), 2, want_weights=True)
    assert [tuple(one.shape) for one in weights] == [(2, n, n) for n in lengths]
    values = x[:, 16:].view(13, 2, 4).split(lengths)
    again = [torch.einsum("hij,jhd->ihd", w, v).reshape(-1, 8) for w, v in zip(weights, values, strict=True)]
    torch.testing.assert_close(context, torch.cat(again))


@pytest.mark.parametrize("dropped", [0.0, 0.5])
def test_working_in_parts_changes_nothing_but_the_cost(monkeypatch, dropped):
    x, runs = draw(8 * 6, 3 * 8), [Run(0, 8, 6)]
    whole, _ = attend(x, runs, 2, fused=False)
    monkeypatch.setattr(attention, "CACHED_SCORES", 2 * 6 * 6 * 3)  # three sequences at a time: 3 + 3 + 2
    parts, weights = attend(x, runs, 2, want_weights=True, dropout_probability=dropped)
    assert len(weights) == 8
    if not dropped:
        torch.testing.assert_close(parts, whole)


def test_returned_weights_are_those_before_dropout():
    x, runs = draw(10, 3 * 8), [Run(0, 2, 5)]
    _, exact = attend(x, runs, 2, want_weights=True)
    _, training = attend(x, runs, 2, want_weights=True, dropout_probability=0.5)
    for one, other in zip(exact, training, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


# -- heads -------------------------------------------------------------------------------------------------------


def test_a_head_is_one_block_of_the_concatenation():
    heads, head_dim = 8, 64
    module = packs.filled(SelfAttention(512, heads, 0.0), spread=0.3, dtype=torch.float32)
    assert module.out.weight.shape == (512, 8 * 64)
    hidden = draw(5, 512)
    query, key, value = module.qkv(hidden).split(512, dim=1)
    blocks = []
    for head in range(heads):
        part = slice(head * head_dim, (head + 1) * head_dim)
        blocks.append(scaled_dot_product(query[:, part], key[:, part], value[:, part])[0])
    expected = module.out(torch.cat(blocks, dim=1))
    torch.testing.assert_close(module(hidden, [Run(0, 1, 5)])[0], expected, rtol=1e-4, atol=1e-4)


# -- Causal attention: no token sees a later one, whoever computes it -------------------------------------------------

HEADS, HEAD_DIM = 2, 4
HIDDEN = HEADS * HEAD_DIM
LENGTHS = [1, 5, 5, 9, 3]


def by_hand(qkv):
    """Causal attention of one sequence, one query at a time."""
    query, key, value = (part.view(-1, HEADS, HEAD_DIM) for part in qkv.split(HIDDEN, dim=1))
    rows = []
    for place in range(len(qkv)):
        scores = torch.einsum("hd,nhd->hn", query[place], key[: place + 1]) / HEAD_DIM**0.5
        rows.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), value[: place + 1]).reshape(-1))
    return torch.stack(rows)


@pytest.mark.parametrize("fused", [True, False])
def test_each_query_sees_itself_and_what_came_before(fused):
    qkv = draw(sum(LENGTHS), 3 * HIDDEN)
    context, _ = attend(qkv, runs_of(LENGTHS), HEADS, fused=fused, causal=True)
    expected = torch.cat([by_hand(part) for part in qkv.split(LENGTHS)])
    torch.testing.assert_close(context, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("positions", [None, places_with_holes(LENGTHS, 20)], ids=["side by side", "holes"])
@pytest.mark.parametrize(
    "relative",
    [RelativeVectors(3, HEAD_DIM, "key_value"), RelativeVectors(3, HEAD_DIM, "key_query"), RelativeBias(32, HEADS)],
    ids=["key_value", "key_query", "bias"],
)
def test_with_relative_positions_later_tokens_change_nothing_either(relative, positions):
    relative = filled(relative)
    qkv = draw(sum(LENGTHS), 3 * HIDDEN)
    changed = qkv.clone()
    changed[sum(LENGTHS[:3]) + 4 :] = draw(sum(LENGTHS[3:]) - 4, 3 * HIDDEN, seed=5)  # from inside the fourth sequence
    options = {"positions": positions, "causal": True}
    one, other = (attend_relative(x, runs_of(LENGTHS), HEADS, relative, **options)[0] for x in (qkv, changed))
    assert torch.equal(one[: sum(LENGTHS[:3]) + 4], other[: sum(LENGTHS[:3]) + 4])
    assert not torch.equal(one, other)


# -- Queries in blocks: the numbers and gradients of the whole product, whatever the size of a block ------------------


def drawn(count, heads, tokens, head_dim):
    draws = torch.Generator().manual_seed(0)
    size = (count, heads, tokens, head_dim)
    return [torch.randn(size, generator=draws, dtype=torch.float64).requires_grad_() for _ in range(3)]


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 17), st.booleans(), st.integers(1, 400))
def test_context_and_gradients_are_those_of_the_whole_product(count, heads, tokens, causal, most):
    tensors = drawn(count, heads, tokens, 4)
    whole, _ = scaled_dot_product(*tensors, causal=causal)
    blocks = attend_in_blocks(*tensors, 0.0, causal, most)
    torch.testing.assert_close(blocks, whole)
    towards = torch.randn_like(whole)
    expected = torch.autograd.grad(whole, tensors, towards)
    torch.testing.assert_close(torch.autograd.grad(blocks, tensors, towards), expected)


def test_the_backward_pass_drops_what_the_forward_pass_dropped():
    query, key, value = drawn(1, 2, 6, 6)
    torch.manual_seed(3)
    context = attend_in_blocks(query, key, value, 0.5, False, 24)
    towards = torch.randn_like(context)
    torch.manual_seed(3)
    weights = attend_in_blocks(query, key, torch.eye(6, dtype=torch.float64).expand(1, 2, 6, 6), 0.5, False, 24)
    assert 0.2 < (weights == 0).double().mean() < 0.8
    torch.testing.assert_close(context, weights @ value)
    (gradient,) = torch.autograd.grad(context, value, towards)
    torch.testing.assert_close(gradient, weights.mT @ towards)


@pytest.mark.parametrize("causal", [False, True])
def test_only_training_on_long_sequences_goes_in_blocks(causal, monkeypatch):
    monkeypatch.setattr(attention, "LONG_SCORES", 2 * 20 * 20 - 1)
    monkeypatch.setattr(attention, "CACHED_SCORES", 2 * 20 * 7)
    seen = []

    def noted(*arguments):
        seen.append(arguments[0].shape)
        return attend_in_blocks(*arguments)

    monkeypatch.setattr(attention, "attend_in_blocks", noted)
    qkv = torch.randn(39, 24, dtype=torch.float64)
    runs = [Run(0, 1, 19), Run(19, 1, 20)]
    expected, _ = attend(qkv, runs, 2, fused=False, causal=causal)
    assert not seen  # nothing is kept for a backward pass
    found, _ = attend(qkv.requires_grad_(), runs, 2, fused=False, causal=causal)
    assert seen == [(1, 2, 20, 4)]
    torch.testing.assert_close(found, expected)
    _, weights = attend(qkv, runs, 2, want_weights=True, causal=causal)
    assert len(seen) == 1 and weights[1].shape == (2, 20, 20)


# -- Padded groups of runs give the numbers and gradients of the runs, and keep sequences apart -----------------------

SHORT = st.lists(st.integers(1, 9), min_size=1, max_size=9)


def attended(monkey, lengths, joined, causal=False, qkv=None):
    qkv = draw(sum(lengths), 3 * 8) if qkv is None else qkv
    qkv = qkv.clone().requires_grad_()
    with monkey.context() as patch:
        if not joined:
            patch.setattr(attention, "plan", lambda runs, *_: runs)
        context, _ = attend(qkv, runs_of(lengths), HEADS, causal=causal)
    (gradient,) = torch.autograd.grad((context * draw(*context.shape, seed=1)).sum(), qkv)
    return context.detach(), gradient


@pytest.mark.parametrize("causal", [False, True])
@settings(max_examples=30, deadline=None)
@given(lengths=SHORT)
def test_joined_runs_give_the_numbers_and_gradients_of_single_ones(causal, lengths):
    monkey = pytest.MonkeyPatch()
    joined, apart = (attended(monkey, lengths, way, causal) for way in (True, False))
    torch.testing.assert_close(joined, apart, rtol=0, atol=1e-12)


@given(lengths=SHORT, cost=st.integers(0, 500), most=st.integers(50, 5000))
def test_a_plan_holds_every_token_once_in_order_and_no_group_exceeds_the_cache(lengths, cost, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "RUN_COST", cost)
        parts = plan.__wrapped__(tuple(runs_of(lengths)), HEADS, most)
    assert sum(part.tokens for part in parts) == sum(lengths)
    found = []
    for part in parts:
        if isinstance(part, Group):
            assert HEADS * part.count * part.length**2 <= most
            torch.testing.assert_close(part.token_of_slot[part.slot_of_token], torch.arange(part.tokens))
            counts = (~part.is_padding.view(part.count, part.length)).sum(dim=1)
            found += counts.tolist()
        else:
            found += [part.length] * part.count
    assert found == lengths


def test_a_poisoned_sequence_of_a_group_moves_no_other():
    lengths = [3, 5, 6]
    monkey = pytest.MonkeyPatch()
    qkv = draw(14, 24)
    clean, _ = attended(monkey, lengths, True, qkv=qkv)
    qkv[:3] = float("nan")
    poisoned, gradient = attended(monkey, lengths, True, qkv=qkv)
    assert poisoned[:3].isnan().all()
    assert torch.equal(poisoned[3:], clean[3:]) and not gradient[3:].isnan().any()


# -- Attention over a whole pack by one kernel -----------------------------------------------------------------------

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SIZES = (3, 7, 7, 12)
SMALL_NETWORK = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}


def one_by_one(query, key, value, ends, rate, causal):
    """What the kernel promises, sequence by sequence."""
    assert ends.offsets.dtype == torch.int32 and ends.longest == int(ends.offsets.diff().max())
    found = []
    bounds = ends.offsets.tolist()
    for start, stop in zip(bounds, bounds[1:], strict=False):
        parts = (x[start:stop].transpose(0, 1) for x in (query, key, value))  # each [heads, length, head_dim]
        found.append(scaled_dot_product(*parts, rate, causal)[0].transpose(0, 1))
    return torch.cat(found)


@pytest.fixture
def kernel(monkeypatch):
    """Replaces the GPU kernel; counts its calls."""
    calls = []

    def counted(*inputs):
        calls.append(inputs)
        return one_by_one(*inputs)

    monkeypatch.setattr(varlen, "flash", counted)
    return calls


@pytest.mark.parametrize("causal", [False, True])
def test_one_kernel_gives_what_the_runs_give(kernel, causal):
    batch = Batch.from_sequences([[5] * length for length in SIZES])
    qkv = torch.randn(batch.num_tokens, 3 * 16, generator=torch.Generator().manual_seed(1))
    found, weights = varlen.attend_varlen(qkv, batch.runs, 2, ends=batch.ends, causal=causal)
    torch.testing.assert_close(found, attend(qkv, batch.runs, 2, causal=causal)[0])
    assert weights is None and len(kernel) == 1
    _, weights = varlen.attend_varlen(qkv, batch.runs, 2, ends=batch.ends, causal=causal, want_weights=True)
    assert [weight.shape for weight in weights] == [(2, length, length) for length in SIZES] and len(kernel) == 1


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "rotary"}, {"attention": "causal"}, {"attention": "window", "window_size": 4}]
)
def test_a_network_uses_it_where_attention_has_no_other_request(kernel, monkeypatch, changes):
    config = ModelConfig(**(SMALL_NETWORK | changes))
    model = build(config).eval()
    batch = Batch.from_sequences([[5 + place for place in range(length)] for length in SIZES])
    wanted = model.encode(batch).hidden
    monkeypatch.setattr(attending, "_flash_executor", lambda *inputs: executor(*inputs[:3], batch.ends))
    executor = original
    torch.testing.assert_close(model.encode(batch).hidden, wanted)
    assert len(kernel) == (0 if "window_size" in changes else config.num_hidden_layers)
    assert all(inputs[5] == (config.attention == "causal") for inputs in kernel)


original = attending._flash_executor


def test_a_processor_keeps_the_runs_and_the_reason_is_said():
    assert "GPU" in varlen.missing(torch.bfloat16, CPU, 64)
    assert "float32" in varlen.missing(torch.float32, GPU, 64)
    assert "multiples of 8" in varlen.missing(torch.bfloat16, GPU, 20)
    batch = Batch.from_sequences([[5] * length for length in SIZES])
    config = ModelConfig(**SMALL_NETWORK)
    plain, depth = [None] * config.num_hidden_layers, config.num_hidden_layers
    assert attending.executors(config, batch, torch.bfloat16, plain, False, None) == plain
    trained = attending.executors(config, batch, torch.bfloat16, plain, True, None)
    assert [one.func for one in trained] == [attend] * depth and all(one.keywords["in_cpp"] for one in trained)


def test_a_right_kernel_passes_the_check_and_a_wrong_one_does_not():
    assert varlen.worst_difference(one_by_one, torch.float32, CPU, 16) < 1e-5
    assert varlen.worst_difference(one_by_one, torch.bfloat16, CPU, 16) < varlen.TOLERANCE

    def blind_to_ends(query, key, value, ends, rate, causal):
        everything = SequenceOffsets(ends.offsets[[0, -1]], int(ends.offsets[-1]))
        return one_by_one(query, key, value, everything, rate, causal)

    def without_gradient(query, key, value, ends, rate, causal):
        return one_by_one(query, key.detach(), value, ends, rate, causal)

    for wrong in (blind_to_ends, without_gradient):
        assert varlen.worst_difference(wrong, torch.float32, CPU, 16) > varlen.TOLERANCE


def test_an_operator_that_is_gone_or_errs_leaves_the_runs_and_says_why(monkeypatch):
    check = varlen._checked.__wrapped__
    before = torch.get_rng_state()

    def gone(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr(varlen, "flash", gone)
    assert "no such operator" in check(torch.float32, CPU, 16)
    monkeypatch.setattr(varlen, "flash", lambda query, key, value, *_: query + key + value)
    assert "differs" in check(torch.float32, CPU, 16)
    monkeypatch.setattr(varlen, "flash", one_by_one)
    with torch.inference_mode():
        assert check(torch.float32, CPU, 16) is None
    assert torch.equal(torch.get_rng_state(), before)
