"""Measures the matrix multiplication peak of a device, to which model speed is compared."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

from ..models.device import DTYPES

ROWS, GPU_ROWS = 2048, 32768
SQUARE, GPU_SQUARE = 1536, 8192  # large enough to reach the peak


def matrix_ceiling(hidden: int, intermediate: int, precision: str, device: torch.device, seconds: float = 1.0) -> float:
    """Return the highest FLOP/s of the matrix products of an encoder and a square product.

    precision: a name of models.device.DTYPES. Every product is warmed up. The fastest repetition counts, which a busy
    machine affects less than the mean.
    """
    rows, square = (GPU_ROWS, GPU_SQUARE) if device.type == "cuda" else (ROWS, SQUARE)
    shapes = ((rows, hidden, intermediate), (rows, intermediate, hidden), (square, square, square))
    return max(_best(shape, DTYPES[precision], device, seconds / len(shapes)) for shape in shapes)


@torch.inference_mode()
def _best(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device, seconds: float) -> float:
    """Return the highest FLOP/s of x W^T: x [rows, inner], W [columns, inner]."""
    rows, inner, columns = shape
    # Random numbers: a GPU multiplies constant ones faster, at lower power.
    draws = torch.Generator(device).manual_seed(0)
    x = torch.randn(rows, inner, dtype=dtype, device=device, generator=draws)
    weight = torch.randn(columns, inner, dtype=dtype, device=device, generator=draws)
    F.linear(x, weight)
    wait(device)
    best, begin = 0.0, time.perf_counter()
    while best == 0.0 or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        F.linear(x, weight)
        wait(device)
        best = max(best, 2 * rows * inner * columns / (time.perf_counter() - started))
    return best


def wait(device: torch.device) -> None:
    """Synchronize with the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
