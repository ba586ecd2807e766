"""Stores matrices as int8 with one scale per row: about a quarter of the size of float32.

Matrix NAME is stored as NAME.int8 and NAME.row_scale, so that a library that does not know the format misses the weight
rather than loading the integers. Vectors stay float32. The largest error of a weight is half a scale: 0.4% of the
largest absolute value in its row.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

VALUES, SCALES = ".int8", ".row_scale"
LARGEST = 127


def to_rows(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors as stored. A matrix, float [rows, ...], becomes int8 [rows, ...] and float32 [rows]."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = tensor.float()
        if weight.dim() < 2 or not weight.numel():
            stored[name] = weight
            continue
        scales = weight.flatten(1).abs().amax(dim=1) / LARGEST
        scales = torch.where(scales > 0, scales, torch.ones_like(scales))  # a row of zeros
        stored[name + VALUES] = (weight / _column(scales, weight)).round().to(torch.int8)
        stored[name + SCALES] = scales
    return stored


def from_rows(values: Tensor, scales: Tensor) -> Tensor:
    """Returns a matrix as float32 [rows, ...]. values: int8 [rows, ...]; scales: [rows]."""
    return values.float() * _column(scales.float(), values)


def _column(scales: Tensor, matrix: Tensor) -> Tensor:
    """The scales with the number of dimensions of the matrix: [rows, 1, ...]."""
    return scales.reshape(-1, *[1] * (matrix.dim() - 1))
