"""Initial weights as published: every matrix and table from a truncated normal, biases 0, norms 1 and 0.

BERT draws from a normal of deviation `initializer_range` cut at two deviations
(`truncated_normal_initializer` of the published code; transformers draws from the uncut normal). The row of
the padding token is 0, as in transformers: it never enters a pack, so nothing would train it.
"""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import nn

from ..core.randomness import derive_seed
from ..nn.embeddings import Table
from ..nn.linear import LayerNorm, Linear


@torch.no_grad()
def initialise(module: nn.Module, initializer_range: float, seed: int, only: Container[str] | None = None) -> None:
    """Fill every parameter of `module`, or those whose names are in `only`.

    Each draws from a generator of its own, keyed by the seed and its name: the encoder of a seed is the same
    under every head, and torch's global generator is not touched.
    """
    for name, part in module.named_modules():
        for field, parameter in part.named_parameters(recurse=False):
            if only is not None and f"{name}.{field}" not in only:
                continue
            if isinstance(part, LayerNorm) and field == "weight":
                parameter.fill_(1.0)
            elif parameter.ndim == 1:
                parameter.zero_()
            else:
                generator = torch.Generator().manual_seed(derive_seed(seed, f"weights {name}.{field}"))
                spread = initializer_range * (part.spread if isinstance(part, Linear | Table) else 1.0)
                nn.init.trunc_normal_(parameter, std=spread, a=-2 * spread, b=2 * spread, generator=generator)
                if isinstance(part, Table) and part.padding_id is not None:
                    parameter[part.padding_id] = 0.0
