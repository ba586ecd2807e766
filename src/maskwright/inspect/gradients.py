"""Vanishing gradients: gradient norm by the distance of the hidden state.

The gradient of a token's loss with respect to the hidden state d tokens earlier is a product of d Jacobians, so it
shrinks or grows by about the same factor per step (Hochreiter 1991; Pascanu et al. 2013, section 2). The additive cell
state of an LSTM reduces the decay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..core.config import check
from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model

ROWS = 64  # segments whose gradients are averaged
UNDERFLOW = 1e-30


@dataclass(frozen=True)
class GradientDecay:
    """Gradient decay of a network.

    norms: mean gradient norm at distances 1, 2, ..., relative to distance 1; factor: fitted factor per step; half: half
    life in tokens, None if the gradient does not decay.
    """

    name: str
    norms: tuple[float, ...]
    factor: float
    half: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def fading(model: Model, ids: Sequence[int], distance: int = 50, name: str = "") -> GradientDecay:
    """Measure the gradient decay of a recurrent causal language model on a text.

    ids: token IDs, at least distance + 2; distance: maximum distance in tokens. The model must be on the CPU. Raises
    InputError for another model and for a text that is too short.
    """
    check(distance >= 2, f"distance is {distance}; it must be at least 2.")
    if model.config.recurrent is None or model.head_name != "clm":
        raise InputError("Gradients by distance require a recurrent causal language model.")
    if len(ids) < distance + 2:
        raise InputError(f"The text has {len(ids):,} tokens; distance {distance} requires {distance + 2}.")
    norms = gradient_norms(model, _segments(ids, distance + 2))
    factor = math.exp(np.polyfit(np.arange(1, distance + 1), np.log(np.maximum(norms, UNDERFLOW)), 1)[0])
    half = math.log(2) / -math.log(factor) if factor < 1 else None
    return GradientDecay(name, tuple(norms.tolist()), factor, half)


def gradient_norms(model: Model, rows: np.ndarray) -> np.ndarray:
    """Return the mean norm of dL / d(state) at distance 1, 2, ..., relative to distance 1: float64 [distances].

    rows: int64 [segments, tokens]. L is the cross-entropy of the last token; the state is that of all layers, h and c
    for an LSTM.
    """
    model = model.eval()
    history = []
    states = None
    for column in rows[:, :-1].T:
        encoded = model.encode_stateful(Batch.from_sequences([[token] for token in column]), states)
        states = encoded.states
        assert states is not None
        history.append([part for layer in states for part in layer])
    loss = F.cross_entropy(model.mlm_logits(encoded.hidden), torch.from_numpy(rows[:, -1].copy()), reduction="sum")
    steps = history[-2::-1]  # the last state feeds the loss; the one before it is at distance 1
    found = torch.autograd.grad(loss, [part for step in steps for part in step])
    each = [torch.stack([one.square().sum(dim=(0, 2)) for one in found[i : i + len(steps[0])]]).sum(dim=0).sqrt()
            for i in range(0, len(found), len(steps[0]))]  # fmt: skip  # float [segments] at each distance
    norms = torch.stack(each).double()  # [distances, segments]
    return (norms.mean(dim=1) / norms[0].mean()).numpy()


def _segments(ids: Sequence[int], length: int) -> np.ndarray:
    """Return up to ROWS evenly spaced segments of a text: int64 [segments, length]."""
    whole = len(ids) // length
    chosen = np.unique(np.linspace(0, whole - 1, min(ROWS, whole)).round().astype(int))
    return np.asarray(ids, dtype=np.int64)[: whole * length].reshape(whole, length)[chosen]
