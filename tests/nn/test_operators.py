"""Weights packed for small products: the plain numbers, and never those of weights that have changed since."""

from __future__ import annotations

import copy

import pytest
import torch

from maskwright.nn import operators
from maskwright.nn.linear import Linear
from maskwright.nn.operators import PackedWeight


def filled(bias: bool = True) -> Linear:
    layer = Linear(48, 64, bias)
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=draws)
    return layer


def rows(number: int = 3, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(number, 48, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("has_operators", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("number", [1, 16, 600])
def test_a_packed_weight_gives_the_numbers_of_the_plain_product(monkeypatch, has_operators, bias, dtype, number):
    if not has_operators:
        monkeypatch.setattr(operators, "missing", lambda dtype: "taken away")
        monkeypatch.setattr(operators, "pack", lambda *_: pytest.fail("packed, where nothing multiplies it"))
    layer, x = filled(bias), rows(number, dtype)
    with torch.no_grad():
        plain = layer(x)
        layer.packed = PackedWeight(layer.weight, layer.bias, dtype)
        assert layer.packed.fits(layer.weight, layer.bias, x)
        scale = float(plain.abs().max())
        tolerance = operators.TOLERANCE.get(dtype, 1e-12)
        torch.testing.assert_close(layer(x), plain, rtol=0, atol=tolerance * scale)


def fused_step(layer: Linear) -> None:
    optimiser = torch.optim.AdamW(layer.parameters(), lr=0.5, fused=True)
    with torch.enable_grad():
        layer(rows()).sum().backward()
    optimiser.step()


@pytest.mark.parametrize(
    "change",
    [
        fused_step,
        lambda layer: layer.weight.mul_(1.5),
        lambda layer: layer.bias.add_(1),
        lambda layer: setattr(layer, "weight", torch.nn.Parameter(layer.weight * 2)),
        lambda layer: setattr(layer.weight, "data", layer.weight.data * 2),
    ],
    ids=["a step", "the weight", "the bias", "another parameter", "another place"],
)
def test_a_copy_does_not_outlive_a_change(change):
    layer = filled()
    layer.packed = PackedWeight(layer.weight, layer.bias, torch.float32)
    with torch.no_grad():
        before = layer(rows()).clone()
        change(layer)
        after = layer(rows())
        assert not layer.packed.fits(layer.weight, layer.bias, rows())
        layer.packed = None
        assert torch.equal(after, layer(rows())) and not torch.allclose(after, before, atol=1e-2)


def test_gradients_and_other_dtypes_go_through_the_parameters():
    layer = filled()
    layer.packed = PackedWeight(layer.weight, layer.bias, torch.float32)
    layer(rows()).sum().backward()
    assert layer.weight.grad is not None and layer.bias.grad is not None
    with torch.no_grad():
        assert layer(rows(dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_a_copied_layer_has_no_packed_weight():
    layer = filled()
    layer.packed = PackedWeight(layer.weight, layer.bias, torch.float32)
    assert copy.deepcopy(layer).packed is None
