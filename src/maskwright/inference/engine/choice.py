"""What runs the products of an encoder on this machine, in each number format, and why: the one place that decides."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import operators
from .layers import MakeProduct, PackedProduct, PlainProduct


@dataclass(frozen=True)
class Choice:
    """name: of the kind of products; why: the reason, as `maskwright doctor` prints it."""

    name: str
    why: str
    make: MakeProduct


def choose(dtype: torch.dtype, device: torch.device) -> Choice:
    """Packed products where the processor has them, else torch's public operators with weights cast once."""
    if device.type != "cpu":
        return Choice(
            "plain", f"packed products are for processors; on {device.type} torch's own are the fastest", PlainProduct
        )
    reason = operators.missing(dtype)
    if reason is not None:
        return Choice("plain", reason, PlainProduct)
    return Choice("packed", "oneDNN's packed products give the numbers of the plain ones here", PackedProduct)
