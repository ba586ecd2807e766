"""How far back a loss reaches: the norm of its gradient by the distance of what was remembered.

The loss of one token depends on what was remembered d tokens before it through d steps, so its gradient is a product of
d Jacobians: it fades, or grows, by about the same factor at every step (Hochreiter 1991; Pascanu et al. 2013, section
2). An LSTM's memory is added to, not multiplied anew, so it fades less.
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

ROWS = 64  # stretches of text whose gradients are averaged
UNDERFLOW = 1e-30


@dataclass(frozen=True)
class Fading:
    """How a network's gradients fade.

    name: of the network; norms: at the distances 1, 2, ..., each divided by that at distance 1, the mean of all
    stretches; factor: what a step multiplies it by, fitted; half: tokens after which half is left, None where nothing
    fades.
    """

    name: str
    norms: tuple[float, ...]
    factor: float
    half: float | None

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def fading(model: Model, ids: Sequence[int], distance: int = 50, name: str = "") -> Fading:
    """Measure a recurrent left-to-right language model on a text.

    ids: the text's tokens, at least distance + 2; distance: tokens to look back. The model must be on the CPU. Raises
    InputError for another kind of model and a text too short.
    """
    check(distance >= 2, f"distance is {distance}; it must be at least 2.")
    if model.config.recurrent is None or model.head_name != "clm":
        raise InputError("Gradients by distance are those of recurrent left-to-right language models.")
    if len(ids) < distance + 2:
        raise InputError(f"The text has {len(ids):,} tokens; looking back {distance} of them needs {distance + 2}.")
    norms = gradient_norms(model, _stretches(ids, distance + 2))
    factor = math.exp(np.polyfit(np.arange(1, distance + 1), np.log(np.maximum(norms, UNDERFLOW)), 1)[0])
    half = math.log(2) / -math.log(factor) if factor < 1 else None
    return Fading(name, tuple(norms.tolist()), factor, half)


def gradient_norms(model: Model, rows: np.ndarray) -> np.ndarray:
    """The mean norm of dL / d(what was remembered) at distance 1, 2, ..., divided by that at 1: float64 [distances].

    rows: int64 [stretches, tokens]. L is the cross-entropy of the last token given all before it; what is remembered
    is the state of every layer, h and c of an LSTM.
    """
    model = model.eval()
    remembered = []
    states = None
    for column in rows[:, :-1].T:
        encoded = model.read_on(Batch.from_sequences([[token] for token in column]), states)
        states = encoded.states
        assert states is not None
        remembered.append([part for layer in states for part in layer])
    loss = F.cross_entropy(model.mlm_logits(encoded.hidden), torch.from_numpy(rows[:, -1].copy()), reduction="sum")
    steps = remembered[-2::-1]  # the last state is behind the loss; the one before it is one step away
    found = torch.autograd.grad(loss, [part for step in steps for part in step])
    each = [torch.stack([one.square().sum(dim=(0, 2)) for one in found[i : i + len(steps[0])]]).sum(dim=0).sqrt()
            for i in range(0, len(found), len(steps[0]))]  # fmt: skip  # float [stretches] at each distance
    norms = torch.stack(each).double()  # [distances, stretches]
    return (norms.mean(dim=1) / norms[0].mean()).numpy()


def _stretches(ids: Sequence[int], length: int) -> np.ndarray:
    """At most ROWS stretches of a text, spread over it: int64 [stretches, length]."""
    whole = len(ids) // length
    chosen = np.unique(np.linspace(0, whole - 1, min(ROWS, whole)).round().astype(int))
    return np.asarray(ids, dtype=np.int64)[: whole * length].reshape(whole, length)[chosen]
