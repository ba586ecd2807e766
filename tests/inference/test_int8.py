"""int8: near float32 on texts that it was not calibrated on, refused where it cannot be right."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.inference.engine import operators
from maskwright.inference.engine.engine import Engine
from maskwright.inference.engine.int8 import ActivationRange, Int8Product
from maskwright.inference.ready import MIN_TEXTS, calibrate, place
from maskwright.models.build import build
from maskwright.models.presets import PRESETS, preset

needs_int8 = pytest.mark.skipif(operators.missing_int8() is not None, reason=str(operators.missing_int8()))
SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def packs(count=6, num_types=1, seed=0):
    draws = torch.Generator().manual_seed(seed)
    for number in range(count):
        rows = [torch.randint(1, 60, (5 + 3 * (number + row),), generator=draws).numpy() for row in range(4)]
        types = [torch.randint(0, num_types, (len(row),), generator=draws).numpy() for row in rows]
        yield Batch.from_sequences(rows, types)


def hidden_of(model, batch):
    with torch.inference_mode():
        return model.encode(batch).hidden.float()


def cosine(a, b) -> float:
    return float(torch.nn.functional.cosine_similarity(a, b, dim=-1).mean())


@needs_int8
@pytest.mark.parametrize("name", sorted(name for name, config in PRESETS.items() if config.recurrent is None)[::4])
def test_every_preset_stays_near_float32_on_other_texts(name):
    config = preset(name, **SMALL)
    model = build(config, seed=3).eval()
    types = max(1, config.type_vocab_size)
    checked = next(packs(1, types, seed=9))
    expected = hidden_of(model, checked)
    model.engine = Engine(int8=True)
    model.engine.calibrate(model, packs(num_types=types))
    found = hidden_of(model, checked)
    assert not torch.equal(found, expected) and cosine(found, expected) > 0.99


@needs_int8
@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 5), st.booleans(), st.floats(-30, 30))
def test_a_product_is_exact_but_for_the_rounding(rows, columns, seed, has_bias, shift):
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(9, columns, generator=draws) * torch.logspace(-2, 2, columns) + shift
    weight = torch.randn(rows, columns, generator=draws)
    bias = torch.randn(rows, generator=draws) if has_bias else None
    exact = torch.nn.functional.linear(x, weight, bias)
    with torch.inference_mode():
        product = Int8Product(weight, bias, ActivationRange(x.amin(0), x.amax(0)), torch.float32)
        found = product(x)
        added = product.plus(x, exact)
    # Half a step of its channel for every number, half a step of its row for every weight.
    numbers = (weight.abs() / product.by).sum(1) / 2
    weights = columns * 127 * product.weights.x_scale * product.weights.scales / 2
    assert bool(((found - exact).abs() <= 1.01 * (numbers + weights) + 1e-4 * exact.abs().max()).all())
    torch.testing.assert_close(added, found + exact, rtol=1e-4, atol=1e-3 * (1 + float(exact.abs().max())))


@pytest.mark.parametrize(("share", "is_clipped"), [(1e-6, True), (0.1, False)])
def test_a_few_large_values_are_clipped_where_that_is_nearer(share, is_clipped):
    x = torch.nn.functional.gelu(torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0)))
    x.view(-1)[: int(share * x.numel())] = 20.0

    def error(scale, zero):
        return float((((x / scale).round() + zero).clamp(0, 255).sub(zero) * scale - x).square().sum())

    empty = torch.full((1000,), torch.inf)
    found = ActivationRange(empty, -empty, torch.zeros(1 << 16, dtype=torch.int64))
    found.add(x)
    scale, zero = found.in_one_scale()
    whole = ActivationRange(x.amin(0), x.amax(0)).in_one_scale()
    assert (scale * (255 - zero) < 19.9) == is_clipped
    assert error(scale, zero) < 0.5 * error(*whole) if is_clipped else (scale, zero) == whole


@needs_int8
def test_weights_of_7_bits_never_overflow_16_bits(monkeypatch):
    """What a CPU without VNNI adds up: pairs of products of the largest numbers."""
    monkeypatch.setattr(operators, "largest_weight", lambda: 63)
    weight = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    weight[0] = 1.0
    x = torch.full((2, 64), 3.0)
    with torch.inference_mode():
        product = Int8Product(weight, None, ActivationRange(-x[0], x[0]), torch.float32)
        assert int(product.numbers(x).max()) * 63 * 2 < 2**15
        torch.testing.assert_close(product(x), x @ weight.T, rtol=0.02, atol=0.5)
    model = tiny()
    batch = next(packs(1, seed=9))
    expected = hidden_of(model, batch)
    model.engine = Engine(int8=True)
    model.engine.calibrate(model, packs())
    assert 0.98 < cosine(hidden_of(model, batch), expected) < 1


@needs_int8
def test_channels_that_never_move_do_no_harm():
    x = torch.tensor([[0.0, 5.0, 1.0], [0.0, 5.0, -1.0]])
    weight = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    with torch.inference_mode():
        found = Int8Product(weight, None, ActivationRange(x.amin(0), x.amax(0)), torch.float32)(x)
    torch.testing.assert_close(found, x @ weight.T, rtol=0, atol=0.05)


@needs_int8
def test_int8_needs_calibration_with_the_weights_as_they_are():
    model = place(tiny(), "cpu", "int8")
    batch = next(packs(1))
    with pytest.raises(InputError, match="calibrate"):
        hidden_of(model, batch)
    model.engine.calibrate(model, packs())
    hidden_of(model, batch)
    with pytest.raises(InputError, match="calibrate"):
        hidden_of(copy.deepcopy(model), batch)
    with torch.no_grad():
        model.encoder.layers[0].ffn.up.weight.add_(0.1)
    with pytest.raises(InputError, match="calibrate"):
        hidden_of(model, batch)


@needs_int8
def test_the_loss_is_measured_on_texts_beside_those_of_the_calibration():
    model = place(tiny(), "cpu", "int8")
    texts = [f"{text} {word}" for text in TEXTS if text for word in ("cats", "dogs", "rain", "mats")]
    loss = calibrate(model, texts)
    assert loss.calibrated_on == 27 and loss.checked_on == 9
    assert 0.97 < loss.min_cosine <= loss.mean_cosine < 1 and f"{loss.mean_cosine:.4f}" in str(loss)
    with pytest.raises(InputError, match=f"at least {MIN_TEXTS}"):
        calibrate(model, ["one text", ""])


def test_int8_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.setattr(operators, "missing_int8", lambda: "this build of torch has no oneDNN")
    with pytest.raises(ConfigError, match="no oneDNN"):
        place(tiny(), "cpu", "int8")
