"""Whether training compiles its layers (torch.compile), decided in one place: by what is asked, what is here, and time.

What is compiled is what lies between the products of a layer: casts, dropout, addition, norm, activation. One compiled
function serves all layers and all numbers of tokens. Compiling takes about a minute, so short runs go without.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import nn

from ..core.errors import ConfigError
from ..models.transformer import Layer

WORTH_STEPS = 1000  # on a GPU: fewer steps do not win back the minute that compiling takes
CHOICES = ("auto", "on", "off")
_TRIED_TOKENS = 64


@dataclass(frozen=True)
class Choice:
    """compiles: whether; why: as `maskwright doctor` prints it."""

    compiles: bool
    why: str


def choose_compiling(wanted: str, device: torch.device, steps: int) -> Choice:
    """wanted: "auto", "on" or "off"; steps: of the run. Raises ConfigError for "on" where there is no compiler."""
    if wanted == "off":
        return Choice(False, "it was switched off")
    lacking = missing_compiler(device)
    if wanted == "on":
        if lacking is not None:
            raise ConfigError(f"--compile on cannot be had: {lacking}. Use --compile auto or off.")
        return Choice(True, "it was switched on")
    if lacking is not None:
        return Choice(False, lacking)
    if device.type != "cuda":
        return Choice(False, "on a processor it is not known to win back its compiling; --compile on tries")
    if steps < WORTH_STEPS:
        return Choice(False, f"fewer than {WORTH_STEPS:,} steps do not win back the minute that compiling takes")
    return Choice(True, "fewer and larger kernels between the products")


def missing_compiler(device: torch.device) -> str | None:
    """Why torch.compile cannot make kernels for this device; None where it can."""
    if device.type == "cuda":
        return None if find_spec("triton") is not None else "Triton is not installed (torch for Linux brings it)"
    if device.type != "cpu":
        return f"torch.compile is not used on {device.type}"
    if sys.platform == "win32" or not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "there is no C++ compiler on the path"
    return None


def compile_layers(model: nn.Module, dtype: torch.dtype, must: bool = False) -> str | None:
    """Let the layers of a model in training be compiled, after one of them has run so, forward and backward.

    dtype: of the hidden states. Returns why not where that fails, and leaves the layers as they were; must: raise
    ConfigError then instead.
    """
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    for layer in layers:
        layer.compiles = True
    said = _try(layers[0], dtype) if layers else "there are no layers"
    if said is None:
        return None
    for layer in layers:
        layer.compiles = False
    if must:
        raise ConfigError(f"Compiling failed: {said}. Use --compile off.")
    return said


def _try(layer: Layer, dtype: torch.dtype) -> str | None:
    """One pass forward and backward over random numbers; torch's generators and the layer's gradients stay."""
    parameter = next(layer.parameters())
    device, size = parameter.device, layer.ffn_norm.weight.shape[0]
    was_training = layer.training
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        hidden = torch.randn(_TRIED_TOKENS, size, device=device, dtype=dtype, requires_grad=True)
        try:
            layer.train()
            result = layer.add(hidden, hidden * 0.5)
            inputs = [hidden, *(one for one in layer.parameters() if one.requires_grad)]
            gradients = torch.autograd.grad(result.float().square().mean(), inputs, allow_unused=True)
        except Exception as error:  # torch.compile fails in many ways; all of them are told
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"
        finally:
            layer.train(was_training)
    fine = all(bool(one.isfinite().all()) for one in gradients if one is not None)
    return None if fine and bool(result.isfinite().all()) else "compiled layers gave numbers that are not finite"
