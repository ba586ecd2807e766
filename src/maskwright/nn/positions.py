"""Fixed position encodings: the sinusoids of the original Transformer, and three simpler ones for comparison."""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal_positions(num_positions: int, size: int, in_halves: bool = False) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/size)), PE(pos, 2i+1) = its cos (Vaswani et al. 2017, section 3.5).

    Returns float32 [num_positions, size], to be added to the token embeddings (not concatenated). Computed in float64:
    at position 5,000 a float32 angle is wrong in the fourth decimal. An odd `size` ends with a sine.
    in_halves: all sines first, then all cosine values, as in the published code and Marian.
    """
    positions = torch.arange(num_positions, dtype=torch.float64)
    even = torch.arange(0, size, 2, dtype=torch.float64)
    angles = positions[:, None] / torch.pow(10000.0, even / size)  # [num_positions, ceil(size / 2)]
    table = torch.empty(num_positions, size, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : size // 2]
    if in_halves:
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    return table.float()


def integer_positions(num_positions: int) -> Tensor:
    """Position indices: float32 [num_positions, 1]. They grow without bound."""
    return torch.arange(num_positions, dtype=torch.float32)[:, None]


def normalized_positions(num_positions: int) -> Tensor:
    """Position indices scaled to 0 to 1: float32 [num_positions, 1]. The same position differs between text lengths."""
    return integer_positions(num_positions) / max(num_positions - 1, 1)


def binary_positions(num_positions: int) -> Tensor:
    """Position indices as binary digits, highest first: float32 [num_positions, bits].

    Each digit changes half as often as the next one, like sinusoids of different frequencies, but not smoothly.
    """
    bits = max((num_positions - 1).bit_length(), 1)
    shifts = torch.arange(bits - 1, -1, -1)
    return (torch.arange(num_positions)[:, None] >> shifts & 1).float()
