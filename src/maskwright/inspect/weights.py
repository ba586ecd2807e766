"""Weights of a model: distribution and singular values of a parameter, differences from another model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError, MissingFileError
from ..models.model import Model
from ..nn.lora import LoraLinear

BINS = 60
MOST_SINGULAR = 200  # singular values returned, evenly spaced in their order


def weights_of(model: Model, *, of_base: bool = False) -> dict[str, Tensor]:
    """Return the parameters by name, with low-rank updates added to the weights that they change.

    of_base: without these updates, and without parameters that were trained with them.
    """
    found = {}
    for name, parameter in model.named_parameters():
        if ".lora." in name or (of_base and parameter.requires_grad):
            continue
        found[name] = parameter.detach()
    if not of_base:
        for name, module in model.named_modules():
            if isinstance(module, LoraLinear):
                found[f"{name}.weight"] = module.merged().weight.detach()
    return found


def describe_weight(model: Model, name: str) -> dict[str, Any]:
    """Return shape, mean, standard deviation, range, norm, histogram and singular values of a parameter.

    {"edges": [bins + 1], "counts": [bins], "singular": values of a matrix in decreasing order, else []}. Raises
    MissingFileError for an unknown name.
    """
    parameters = dict(model.named_parameters())
    whole = weights_of(model)
    if name not in parameters:
        raise MissingFileError(f"The model has no weights named {name}.")
    values = whole.get(name, parameters[name].detach()).float().cpu()
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(values, BINS, low, high)
    return {
        "name": name,
        "shape": list(values.shape),
        "size": values.numel(),
        "mean": float(values.mean()),
        "deviation": float(values.std(correction=0)),
        "least": float(values.min()),
        "most": float(values.max()),
        "norm": float(values.norm()),
        "edges": torch.linspace(low, high, BINS + 1).tolist(),
        "counts": counts.int().tolist(),
        "singular": _singular(values),
    }


def _singular(values: Tensor) -> list[float]:
    """The singular values of a matrix, from the eigenvalues of the smaller of its Gram matrices."""
    if values.dim() != 2 or min(values.shape) < 2:
        return []
    wide = values.double() if values.shape[0] >= values.shape[1] else values.double().T
    found = torch.linalg.eigvalsh(wide.T @ wide).clamp(min=0).sqrt().flip(0)
    chosen = torch.linspace(0, len(found) - 1, min(len(found), MOST_SINGULAR)).round().long()
    singular: list[float] = found[chosen].tolist()
    return singular


def weight_differences(model: Model, other: Model | None) -> tuple[dict[str, float], list[str]]:
    """Compare the parameters of a model with those of another one, or with those that its adapter changed.

    other: None for the base of the adapter. Returns the norm of the difference over the norm in the other model, by the
    names of the parameters that both have in one shape, and the names of the model's other parameters. Raises
    InputError for a model without an adapter and other, and for models without common parameters.
    """
    if other is None and model.adapter is None:
        raise InputError("This model is not an adapter: select a model to compare it with.")
    base = weights_of(model, of_base=True) if other is None else weights_of(other)
    found, alone = {}, []
    for name, weight in weights_of(model).items():
        partner = base.get(name)
        if partner is None or partner.shape != weight.shape:
            alone.append(name)
            continue
        there = partner.float().to(weight.device)
        norm, distance = float(there.norm()), float((weight.float() - there).norm())
        found[name] = distance / norm if norm else float(distance > 0)
    if not found:
        raise InputError("These models have no weights of equal names and shapes: compare models of one architecture.")
    return found, alone
