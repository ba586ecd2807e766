"""What multiplies in an encoder on this machine, in each number format, and why: the one place that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...core.errors import ConfigError
from ...models.device import DTYPES, has_fast_bf16
from . import operators
from .int8 import Int8Kit, Place, Range
from .layers import FloatKit, Kit, PackedProduct, PlainProduct, RowProduct


@dataclass(frozen=True)
class Choice:
    """products: "packed", "plain", "int8", or "none" where there are none; why: as `maskwright doctor` prints it."""

    products: str
    why: str


def choose(precision: str, device: torch.device) -> Choice:
    """Packed products where the processor has them, else torch's public ones. precision: fp32, bf16, fp16, int8."""
    if precision == "int8":
        reason = f"int8 is for processors, not for {device.type}" if device.type != "cpu" else operators.missing_int8()
        return Choice("int8", "oneDNN's int8 products are exact here") if reason is None else Choice("none", reason)
    if device.type != "cpu":
        return Choice("plain", f"packed products are for processors; {device.type} is fastest with torch's own")
    reason = operators.missing(DTYPES[precision])
    return Choice(
        "plain" if reason else "packed", reason or "oneDNN's packed products give the plain ones' numbers here"
    )


def float_kit(dtype: torch.dtype, device: torch.device) -> Kit:
    """What an encoder in `dtype` is made with on a device; also in dtypes that no precision names, as float64."""
    named = next((name for name, known in DTYPES.items() if known == dtype), None)
    is_packed = named is not None and choose(named, device).products == "packed"
    return FloatKit(PackedProduct if is_packed else PlainProduct, dtype)


def step_kit(dtype: torch.dtype, device: torch.device, num_rows: int) -> Kit:
    """What a network is made with that reads one more token of each of `num_rows` texts, again and again."""
    if num_rows == 1 and dtype == torch.float32 and device.type == "cpu":
        return FloatKit(RowProduct, dtype)
    return float_kit(dtype, device)


def int8_kit(ranges: Mapping[Place, Range], device: torch.device) -> Kit:
    """What an encoder in int8 is made with; its attention is in bfloat16 where the processor multiplies that."""
    return Int8Kit(ranges, torch.bfloat16 if has_fast_bf16(device) else torch.float32)


def require_int8(device: torch.device) -> None:
    """Raise ConfigError where there are no int8 products, saying why."""
    found = choose("int8", device)
    if found.products == "none":
        raise ConfigError(f"int8 cannot run here: {found.why}. Use --precision auto.")
