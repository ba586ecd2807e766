"""What a learned mix takes of each layer, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from .report import Bar, Bars
from .report.numbers import fraction, percent


def mixture_bars(
    labels: Sequence[str], shares: Sequence[float], texts: Sequence[str], scale: float, of: str = ""
) -> Bars:
    """A bar for each layer. texts: what stands beside each; of: what the shares are a mean of, if they are one."""
    bars = [Bar(label, share, text) for label, share, text in zip(labels, shares, texts, strict=True)]
    note = (
        f"softmax(w) of Peters et al. 2018, equation 1, {of}the scale gamma is {fraction(scale)}. Without learning "
        f"each layer has {percent(1 / len(labels))}."
    )
    return Bars(bars, title="What the learned mix takes of each layer", note=note)
