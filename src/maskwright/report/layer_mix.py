"""Chart of the weights of a scalar mix of layers."""

from __future__ import annotations

from collections.abc import Sequence

from . import Bar, Bars
from .numbers import fraction, percent


def mixture_bars(
    labels: Sequence[str], shares: Sequence[float], texts: Sequence[str], scale: float, of: str = ""
) -> Bars:
    """A bar per layer. shares: softmax weights; texts: labels at the bars; of: what the weights are averaged over."""
    bars = [Bar(label, share, text) for label, share, text in zip(labels, shares, texts, strict=True)]
    note = (
        f"softmax(w) of Peters et al. 2018, equation 1, {of}the scale gamma is {fraction(scale)}. Untrained weight of "
        f"each layer: {percent(1 / len(labels))}."
    )
    return Bars(bars, title="Scalar mix weights by layer", note=note)
