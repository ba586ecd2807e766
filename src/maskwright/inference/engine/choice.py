"""Selects the matrix product kernels for each precision and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...core.errors import ConfigError
from ...models.device import DTYPES, has_fast_bf16
from ...nn.native.library import cpu_has
from . import operators
from .int8 import ActivationRange, Int8Kernels, WeightKey
from .layers import FloatKernels, KernelSet, PackedProduct, PlainProduct, RowProduct
from .native import missing


@dataclass(frozen=True)
class Choice:
    """A selected kernel type.

    products: "packed", "plain", "int8", or "none" if unsupported; for layers "native" (native.py) or "products".
    why: the reason that `maskwright doctor` prints.
    """

    products: str
    why: str


def choose(precision: str, device: torch.device) -> Choice:
    """Return prepacked products if the CPU supports them, else torch's public ones.

    precision: fp32, bf16, fp16 or int8.
    """
    if precision == "int8":
        reason = f"int8 requires a CPU, not {device.type}" if device.type != "cpu" else operators.missing_int8()
        if reason is not None:
            return Choice("none", reason)
        bits = "" if operators.largest_weight() == 127 else " with weights of 7 bits, because this CPU has no VNNI"
        return Choice("int8", f"oneDNN's int8 products are exact here{bits}")
    if device.type != "cpu":
        return Choice("plain", f"packed products are for CPUs; on {device.type} torch's own are the fastest")
    if precision == "fp32" and cpu_has("avx2") and not cpu_has("avx512_f"):
        return Choice("plain", "torch's own products are the fastest in float32 on CPUs without AVX-512")
    reason = operators.missing(DTYPES[precision])
    return Choice("plain" if reason else "packed", reason or "oneDNN's packed products match the plain ones here")


def choose_layers(precision: str, device: torch.device) -> Choice:
    """Return how post-norm layers with full attention are computed. precision: as in `choose`."""
    is_cpu, dtype = device.type == "cpu", torch.int8 if precision == "int8" else DTYPES[precision]
    reason = missing(dtype) if is_cpu else f"it is for CPUs, not {device.type}"
    if reason is not None:
        return Choice("products", f"layers.cpp is not used: {reason}")
    return Choice("native", "layers.cpp, compiled for this CPU, matches torch's operators here")


def float_kernels(dtype: torch.dtype, device: torch.device) -> KernelSet:
    """Return the kernels for an encoder in `dtype`, including dtypes without a precision name, such as float64."""
    named = next((name for name, known in DTYPES.items() if known == dtype), None)
    is_packed = named is not None and choose(named, device).products == "packed"
    return FloatKernels(PackedProduct if is_packed else PlainProduct, dtype)


def step_kernels(dtype: torch.dtype, device: torch.device, num_rows: int) -> KernelSet:
    """Return the kernels for decoding steps of `num_rows` sequences."""
    if num_rows == 1 and dtype == torch.float32 and device.type == "cpu":
        return FloatKernels(RowProduct, dtype)
    return float_kernels(dtype, device)


def int8_kernels(ranges: Mapping[WeightKey, ActivationRange], device: torch.device) -> KernelSet:
    """Return the int8 kernels; attention is in bfloat16 if the CPU supports it in hardware."""
    return Int8Kernels(ranges, torch.bfloat16 if has_fast_bf16(device) else torch.float32)


def require_int8(device: torch.device) -> None:
    """Raise ConfigError with the reason if int8 is not supported."""
    found = choose("int8", device)
    if found.products == "none":
        raise ConfigError(f"int8 cannot run here: {found.why}. Use --precision auto.")
