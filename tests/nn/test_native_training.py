"""Training in C++: the numbers of torch's operators, the same dropout in both passes, and reasons not to use it."""

import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn import attention, layers
from maskwright.nn.attention import Run
from maskwright.nn.native import library, training

RUNS = (Run(0, 3, 1), Run(3, 2, 7), Run(17, 1, 16), Run(33, 2, 33), Run(99, 1, 48), Run(147, 1, 130))
TOKENS = RUNS[-1].stop


@pytest.fixture(autouse=True)
def skipped_without_it():
    if training.missing() is not None:
        pytest.skip(f"training in C++: {training.missing()}")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def attended_with(weights_of, qkv, heads, causal=False):
    """The context of the explicit product in float64. weights_of: changes weights [heads, length, length] of a run."""
    found = []
    for run, part in zip(RUNS, qkv.split([run.tokens for run in RUNS]), strict=True):
        for number, own in enumerate(part.split(run.length)):
            query, key, value = own.view(run.length, 3, heads, -1).permute(1, 2, 0, 3)
            scores = query @ key.mT / math.sqrt(query.shape[-1])
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
            weights = weights_of(torch.softmax(scores, dim=-1), run.start + number * run.length)
            found.append((weights @ value).transpose(0, 1).reshape(run.length, -1))
    return torch.cat(found)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "size"), [(2, 16), (12, 32), (1, 48), (3, 64)])
def test_attention_has_the_numbers_and_the_gradient_of_the_explicit_product(heads, size, causal):
    qkv, slope = drawn(TOKENS, 3 * heads * size), drawn(TOKENS, heads * size, seed=1)
    ours, wanted = qkv.clone().requires_grad_(), qkv.double().requires_grad_()
    context, _ = attention.attend(ours, RUNS, heads, causal=causal, in_cpp=True)
    assert "Attention" in type(context.grad_fn).__name__  # of C++
    explicit = attended_with(lambda weights, _: weights, wanted, heads, causal)
    context.backward(slope)
    explicit.backward(slope.double())
    torch.testing.assert_close(context.double(), explicit, rtol=0, atol=5e-6)
    torch.testing.assert_close(ours.grad.double(), wanted.grad, rtol=0, atol=2e-5)


def test_dropped_weights_are_the_same_in_both_passes_at_the_given_rate():
    heads, size, probability, masks = 2, 64, 0.3, {}
    qkv = drawn(TOKENS, 3, heads, size)
    for run in RUNS:  # what is dropped shows where the values are those of the identity, 64 keys at a time
        for start in range(run.start, run.stop, run.length):
            parts = []
            for first in range(0, run.length, size):
                values = torch.zeros(TOKENS, heads, size)
                count = min(size, run.length - first)
                values[start + first : start + first + count] = torch.eye(size)[:count, None]
                shown = torch.cat([qkv[:, :2], values[:, None]], dim=1).reshape(TOKENS, -1).requires_grad_()
                torch.manual_seed(3)
                context = training.attend(shown, RUNS, heads, probability)
                parts.append(context.view(TOKENS, heads, size)[start : start + run.length, :, :count].detach() != 0)
            masks[start] = torch.cat(parts, dim=2).transpose(0, 1)  # [heads, length, length]
    kept = torch.cat([mask.flatten() for mask in masks.values()]).double()
    assert float(kept.mean()) == pytest.approx(1 - probability, abs=0.005)
    factor = 65536 / (65536 - round(probability * 65536))
    ours = qkv.reshape(TOKENS, -1).requires_grad_()
    wanted = ours.detach().double().requires_grad_()
    slope = drawn(TOKENS, heads * size, seed=1)
    torch.manual_seed(3)
    context = training.attend(ours, RUNS, heads, probability)
    explicit = attended_with(lambda weights, start: weights * masks[start] * factor, wanted, heads)
    context.backward(slope)
    explicit.backward(slope.double())
    torch.testing.assert_close(context.double(), explicit, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.grad.double(), wanted.grad, rtol=0, atol=3e-5)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("tokens", [1, 63, 64, 200])
def test_addition_and_norm_have_the_numbers_and_the_gradients_of_torch(tokens, probability):
    inputs = drawn(tokens, 96), drawn(tokens, 96, seed=1), 1 + 0.1 * drawn(96, seed=2), drawn(96, seed=3)
    ours, wanted = [one.clone().requires_grad_() for one in inputs], [one.double().requires_grad_() for one in inputs]
    torch.manual_seed(5)
    result = training.add_and_norm(*ours, 1e-12, probability)
    torch.manual_seed(5)
    factors = training.dropout(torch.ones(tokens, 96), probability) if probability else torch.ones(tokens, 96)
    explicit = F.layer_norm(wanted[0] + factors.double() * wanted[1], (96,), wanted[2], wanted[3], 1e-12)
    slope = drawn(tokens, 96, seed=4)
    result.backward(slope)
    explicit.backward(slope.double())
    torch.testing.assert_close(result.double(), explicit, rtol=0, atol=5e-6)
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-5, atol=2e-5)


def test_dropout_keeps_the_mean_drops_as_many_and_has_its_own_gradient():
    x = torch.ones(300, 1001).requires_grad_()
    y = layers.dropout(x, 0.1)
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.9], rel=1e-4)
    assert float((y == 0).double().mean()) == pytest.approx(0.1, abs=0.003)
    assert float(y.double().mean()) == pytest.approx(1.0, abs=0.003)
    neighbors = (y[:, 1:] == 0) & (y[:, :-1] == 0)
    assert float(neighbors.double().mean()) == pytest.approx(0.01, abs=0.001)  # they are dropped independently
    assert not torch.equal(y, layers.dropout(x, 0.1))
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


SCRIPT = """
import hashlib, sys
import torch
from maskwright.nn.attention import Run
from maskwright.nn.native import training
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
qkv = torch.randn(300, 192, generator=torch.Generator().manual_seed(0)).requires_grad_()
context = training.attend(qkv, (Run(0, 5, 60),), 2, 0.1)
result = training.add_and_norm(context, context * 0.5, torch.ones(64), torch.zeros(64), 1e-12, 0.1)
training.dropout(result, 0.2).square().sum().backward()
print(hashlib.sha256(qkv.grad.numpy().tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_bits_do_not_depend_on_the_number_of_threads():
    found = {
        subprocess.run([sys.executable, "-c", SCRIPT, threads], capture_output=True, text=True, check=True).stdout
        for threads in ("1", "2", "3", "8")
    }
    assert len(found) == 1


def test_a_network_in_training_has_the_loss_and_gradients_that_it_has_without(monkeypatch):
    config = ModelConfig(
        vocab_size=90, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=96,
        hidden_dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    batch = Batch.from_sequences([list(range(5, 5 + length)) for length in (3, 17, 40, 40, 80)])
    found = []
    for reason in (None, "for comparison"):
        monkeypatch.setattr(training, "missing", lambda reason=reason: reason)
        model = build(config, head="mlm").train()
        hidden = model.encode(batch).hidden
        model.mlm_loss(hidden, batch.input_ids)[0].backward()
        found.append([hidden.detach(), *(one.grad for one in model.parameters() if one.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-4)


def test_not_a_number_stays_one():
    qkv = drawn(TOKENS, 3 * 64)
    qkv[5, 70] = math.nan  # a key of the second sequence of 7 tokens
    context = training.attend(qkv, RUNS, 2)
    assert context[3:10, :32].isnan().all() and not context[:3].isnan().any() and not context[10:].isnan().any()
    added = drawn(4, 64)
    added[1, 1] = math.nan
    result = training.add_and_norm(drawn(4, 64), added, torch.ones(64), torch.zeros(64), 1e-12)
    assert result[1].isnan().all() and not result[[0, 2, 3]].isnan().any()


def test_what_it_does_not_compute_stays_with_torch():
    assert training.fits(drawn(2, 2)) and not training.fits(drawn(2, 2).bfloat16())
    assert not training.fits(drawn(2, 2), drawn(2).double())
    with training.allowed(False):
        assert not training.fits(drawn(2, 2)) and not training.is_used()
    assert training.is_used()
    narrow = drawn(TOKENS, 3 * 24).requires_grad_()  # a head of 24 numbers
    assert "Attention" not in type(attention.attend(narrow, RUNS, 1, in_cpp=True)[0].grad_fn).__name__
    norm = layers.LayerNorm(20, 1e-5)
    torch.nn.init.ones_(norm.weight)
    torch.nn.init.zeros_(norm.bias)
    result = layers.add_and_norm(drawn(3, 20), drawn(3, 20, seed=1), norm, 0.0, True)
    torch.testing.assert_close(result, F.layer_norm(drawn(3, 20) + drawn(3, 20, seed=1), (20,)))


def test_what_does_not_fit_is_refused_or_left_to_torch():
    qkv = drawn(TOKENS, 3 * 64).requires_grad_()
    for runs, heads in (([Run(0, 1, TOKENS + 1)], 2), (RUNS[:-1], 2), (RUNS, 5)):
        with pytest.raises(ValueError, match="do not fit qkv of shape"):
            training.attend(qkv, runs, heads)
    norm = layers.LayerNorm(64, 1e-5)
    torch.nn.init.ones_(norm.weight)
    torch.nn.init.zeros_(norm.bias)
    one, whole = drawn(1, 64), drawn(5, 64, seed=1)
    torch.testing.assert_close(layers.add_and_norm(whole, one, norm, 0.0, True), norm(whole + one))
    called: list[torch.Tensor] = []
    norm.register_forward_hook(lambda module, inputs, output: called.append(output))
    layers.add_and_norm(whole, whole, norm, 0.0, True)
    assert len(called) == 1


def test_outside_of_training_attention_has_second_derivatives():
    model = build(ModelConfig(vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2))
    batch, (weight, *_) = Batch.from_sequences([[5, 6, 7]]), model.encoder.layers[0].attention.qkv.parameters()
    (slope,) = torch.autograd.grad(model.eval().encode(batch).hidden.square().sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), weight)
    assert bool(second.any())


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="A function marked once_differentiable gives second derivatives of 0 for a loss, without an error; also jvp",
    ours="Functions with a first derivative only raise an error; attention in evaluation mode has all derivatives",
)
def test_in_training_a_second_derivative_is_refused_instead_of_zero():
    qkv = drawn(TOKENS, 3 * 64).requires_grad_()
    inputs = drawn(3, 64), drawn(3, 64, seed=1), torch.ones(64), torch.zeros(64)
    normed = training.add_and_norm(*(one.requires_grad_() for one in inputs), 1e-5)
    for result, source in ((training.attend(qkv, RUNS, 2), qkv), (normed, inputs[0])):
        with pytest.raises(RuntimeError, match="has no second derivative"):
            torch.autograd.grad(result.square().sum(), source, create_graph=True)
    x = drawn(50).requires_grad_()  # dropout is linear: it has one
    torch.manual_seed(0)
    y = training.dropout(x, 0.5)
    (slope,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach() * (y.detach() / x.detach()) ** 3, rtol=1e-4, atol=1e-4)


FRESH = """
import torch
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn.native import training
model = build(ModelConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                          hidden_dropout=0.0)).train()
model.encoder.recomputes = True
torch.set_default_device("meta")
batch = Batch.from_sequences([[5, 6, 7]])
with torch.autocast("cpu", torch.bfloat16, enabled=False):
    model.encode(batch).hidden.square().sum().backward()
assert training.is_used(), training.missing()
"""


@pytest.mark.slow
def test_it_is_tried_wherever_it_is_needed_first():
    """Here inside a layer that is recomputed, with another default device."""
    subprocess.run([sys.executable, "-c", FRESH], check=True)


def test_reasons_not_to_use_it(monkeypatch):
    plain = training._add_norm
    monkeypatch.setattr(training, "_add_norm", lambda *inputs: plain(*inputs) * 1.25)
    assert "it differs from torch's operators by 2.0e-01" in training.missing.__wrapped__()
    monkeypatch.setattr(training, "_add_norm", lambda *inputs: plain(*inputs) * math.nan)
    assert "it differs from torch's operators by nan" in training.missing.__wrapped__()
    monkeypatch.setattr(training, "_add_norm", plain)
    monkeypatch.setattr(library, "instruction_sets", lambda: frozenset({"avx2"}))
    assert training.missing.__wrapped__() == "it needs a CPU with AVX-512"
    monkeypatch.setenv("MASKWRIGHT_NATIVE", "off")
    assert training.missing.__wrapped__() == "MASKWRIGHT_NATIVE=off"
