"""Whether weights are as they were when a copy of them was made, as packed weights are.

torch counts a version of every tensor, but its fused optimisers change weights without counting one, so they are made
to. A parameter changed through `.data` in its place leaves no trace at all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

Stamp = tuple[int, int, int, Any]  # identity, version, place in memory, dtype


def stamp_of(weight: Tensor) -> Stamp:
    """What is another one as soon as a weight [...] has changed. Those made under inference mode have no version."""
    return id(weight), weight._version, weight.data_ptr(), weight.dtype


@cache
def count_fused_steps() -> None:
    """From now on every step of a fused optimiser counts as a change of its parameters."""

    def count(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group.get("fused"):
                increment_version(group["params"])

    register_optimizer_step_post_hook(count)
