"""The linear layers of a model that an adapter can change, under the names of the base's format."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..models.adapters import LoraPart
from ..models.lora_config import ALL_LINEAR, ROLES
from ..models.model import Model
from ..nn.linear import Linear
from .family import Family, family_for

# Settings of the layers between encoder and head, and their values where there are none.
BETWEEN: dict[str, Any] = {"mix_layers": False, "top_layers": 0, "top_embedding_size": 0}


def linear_parts(model: Model) -> dict[str, LoraPart]:
    """Returns the linear layers of a model by transformers' names; a joint layer may have a name for each part."""
    family, found = base_family(model), {}
    for name, module in model.named_modules():
        if isinstance(module, Linear):
            theirs = family.stored_names(f"{name}.weight", model.head_name)
            size = module.weight.shape[0] // len(theirs)
            names = ("whole",) if len(theirs) == 1 else _roles(name) or tuple(map(str, range(len(theirs))))
            for number, (own, part) in enumerate(zip(theirs, names, strict=True)):
                found[own.removesuffix(".weight")] = LoraPart(name, part, number * size, size)
    return found


def _roles(module: str) -> tuple[str, ...]:
    """What targets a linear layer may be, () for one outside the layers."""
    return ROLES.get(".".join(module.split(".")[-2:]), ()) if ".layers." in module else ()


def is_target(part: LoraPart, targets: Collection[str], model: Model) -> bool:
    """Whether the targets of an adapter include a part; a joint layer is included as a whole.

    all-linear also includes the pooler, if a head reads it.
    """
    roles = _roles(part.module) if part.name == "whole" else (part.name,)
    if part.module == "encoder.pooler" and model.head is not None:
        roles = (ALL_LINEAR,)
    return any(role in targets or ALL_LINEAR in targets for role in roles)


def base_family(model: Model) -> Family:
    """Returns the family in whose format the base is stored; what is between encoder and head is not the base's."""
    config = replace(model.config, **BETWEEN)
    families = [family_for(config, head) for head in (model.head_name, None)]
    return next((family for family in families if family.encoder), families[0])


def stored_in_base(family: Family, name: str, model: Model) -> list[str]:
    """Returns transformers' names of a parameter; none for a low-rank update."""
    return [] if ".lora." in name else family.stored_names(name, model.head_name)
