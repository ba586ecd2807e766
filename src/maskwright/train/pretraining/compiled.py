"""Decides whether training compiles its layers (torch.compile): by the setting, the compiler and the number of steps.

The operations between the matrix products of a layer are compiled: casts, dropout, addition, norm, activation. One
compiled function serves all layers and all numbers of tokens. Compilation takes about a minute, so short runs skip it.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import nn

from ...core.errors import ConfigError
from ...models.transformer import Layer
from ...nn.layers import preserve_generators, seed_generators

WORTH_STEPS = 1000  # on a GPU: fewer steps do not save the minute that compilation takes
CHOICES = ("auto", "on", "off")
_TRIED_TOKENS = 64


@dataclass(frozen=True)
class Choice:
    """compiles: the decision; why: the reason, as `maskwright doctor` prints it."""

    compiles: bool
    why: str


def choose_compiling(wanted: str, device: torch.device, steps: int) -> Choice:
    """Decide for a run of `steps` steps. wanted: "auto", "on" or "off".

    Raises ConfigError for "on" without a compiler.
    """
    if wanted == "off":
        return Choice(False, "it was switched off")
    lacking = missing_compiler(device)
    if wanted == "on":
        if lacking is not None:
            raise ConfigError(f"--set compile=on is not available: {lacking}. Use compile=auto or off.")
        return Choice(True, "it was switched on")
    if lacking is not None:
        return Choice(False, lacking)
    if device.type != "cuda":
        return Choice(False, "on a CPU it is not known to save its compilation time; --set compile=on tries")
    if steps < WORTH_STEPS:
        return Choice(False, f"fewer than {WORTH_STEPS:,} steps do not save the minute that compilation takes")
    return Choice(True, "fewer and larger kernels between the matrix products")


def missing_compiler(device: torch.device) -> str | None:
    """Why torch.compile cannot generate kernels for this device; None if it can."""
    if device.type == "cuda":
        return None if find_spec("triton") is not None else "Triton is not installed (torch for Linux brings it)"
    if device.type != "cpu":
        return f"torch.compile is not used on {device.type}"
    if sys.platform == "win32" or not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "there is no C++ compiler on the path"
    return None


def compile_layers(model: nn.Module, dtype: torch.dtype, must: bool = False) -> str | None:
    """Compile the layers of a model in training, after a test of one layer, forward and backward.

    dtype: of the hidden states. If the test fails, the layers stay uncompiled and the reason is returned; must: raise
    ConfigError instead.
    """
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    for layer in layers:
        layer.compiles = True
    failure = _try(layers[0], dtype) if layers else "there are no layers"
    if failure is None:
        return None
    for layer in layers:
        layer.compiles = False
    if must:
        raise ConfigError(f"Compilation failed: {failure}. Use --set compile=off.")
    return failure


def _try(layer: Layer, dtype: torch.dtype) -> str | None:
    """One forward and backward pass over random numbers; torch's generators and the layer's gradients are unchanged."""
    parameter = next(layer.parameters())
    device, size = parameter.device, layer.ffn_norm.weight.shape[0]
    was_training = layer.training
    with preserve_generators(device):
        seed_generators(0, device)
        hidden = torch.randn(_TRIED_TOKENS, size, device=device, dtype=dtype, requires_grad=True)
        try:
            layer.train()
            result = layer.add(hidden, hidden * 0.5)
            inputs = [hidden, *(one for one in layer.parameters() if one.requires_grad)]
            gradients = torch.autograd.grad(result.float().square().mean(), inputs, allow_unused=True)
        except Exception as error:  # torch.compile fails in many ways; all of them are reported
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"
        finally:
            layer.train(was_training)
    fine = all(bool(one.isfinite().all()) for one in gradients if one is not None)
    return None if fine and bool(result.isfinite().all()) else "compiled layers returned values that are not finite"
