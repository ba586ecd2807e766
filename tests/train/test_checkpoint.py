"""Checkpoints are written tensor by tensor, with the bytes of the safetensors library."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from maskwright.train.checkpoint import write_tensors


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_file_has_the_bytes_of_the_library(tmp_path: Path, dtype: torch.dtype):
    tensors = {
        "b": torch.arange(6).view(2, 3).to(dtype),
        "a/step": torch.tensor(3.0),
        "empty": torch.zeros(0, 4, dtype=dtype),
        "é": torch.ones(3, dtype=torch.float16),
        "c": torch.arange(12.0).view(3, 4).T.to(dtype),
    }
    write_tensors(tmp_path / "x.safetensors", tensors)
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    assert (tmp_path / "x.safetensors").read_bytes() == safetensors.torch.save(whole)


def test_tied_tensors_are_stored_once_each(tmp_path: Path):
    table = torch.randn(4, 2)
    write_tensors(tmp_path / "x.safetensors", {"one": table, "other": table})
    found = safetensors.torch.load((tmp_path / "x.safetensors").read_bytes())
    assert torch.equal(found["one"], table) and torch.equal(found["other"], table)
