"""Folders of small models with weights that follow from the tensors' names, so that no initialization matters."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

import maskwright as mw

ROWS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15], [16, 17, 18, 19, 20, 21, 22], [23, 24]]


def weights(name: str, shape: list[int]) -> np.ndarray:
    """float32 of this shape: random numbers of the name's own seed, around 1 for the weights of norms."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    values = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape) * 0.2
    is_norm = len(shape) == 1 and name.endswith("weight")
    return np.asarray(values + is_norm, dtype=np.float32)


def write(folder: Path, config: dict[str, Any], tensors: dict[str, list[int]]) -> None:
    """Writes config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({name: weights(name, shape) for name, shape in tensors.items()}, folder / "model.safetensors")


def summary(values: torch.Tensor) -> list[float]:
    """Sum, sum of magnitudes, weighted sum, and the first three numbers of a tensor."""
    flat = values.detach().double().flatten()
    places = torch.cos(torch.arange(len(flat), dtype=torch.float64))
    found = [flat.sum(), flat.abs().sum(), (flat * places).sum(), *flat[:3]]
    return [round(float(one), 4) for one in found]


def answers(folder: Path) -> dict[str, Any]:
    """Every output of the padded call of ROWS by name: its shape and summary; only positions that hold a token."""
    model = mw.load(folder).eval()
    width = max(map(len, ROWS))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in ROWS])  # [batch, seq]
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ROWS])
    types = (torch.arange(width) % 2 * mask).long()
    if model.head_name == "choice":  # [batch, 1, seq]
        ids, mask, types = ids[:, None], mask[:, None], types[:, None]
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, token_type_ids=types, output_hidden_states=True)
    found: dict[str, Any] = {}
    for name, given in vars(out).items():
        is_several = isinstance(given, tuple) and bool(given)
        value = given[len(given) // 2] if is_several else given
        if not isinstance(value, torch.Tensor):
            continue
        shape = [len(given)] if is_several else list(value.shape)
        if value.ndim >= 2 and value.shape[:2] == mask.shape:
            found[name] = [
                shape,
                summary(torch.where(mask.bool().reshape(*mask.shape, *[1] * (value.ndim - 2)), value, 0)),
            ]
        else:
            found[name] = [shape, summary(value)]
    return found
