"""HTML report of gradient decay, one line per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import Block, Chart, Curves, Report, Series, Table, write_report
from ..report.content import Value
from .gradients import GradientDecay


def write_gradients(path: Path, found: Sequence[GradientDecay]) -> None:
    """Write the report: norms by distance, and the remaining gradient of each model."""
    chart = Chart(
        "Norm of the gradient by distance",
        [Series(one.name, list(range(1, len(one.norms) + 1)), list(one.norms)) for one in found],
        x_label="tokens back",
        log_y=True,
    )
    note = "Gradient norm of a token's loss with respect to the hidden state at this distance, relative to distance 1."
    columns, rows = table(found)
    names = [name.capitalize() for name in columns]
    blocks: list[Block] = [Curves([chart], title="Gradient decay", note=note), Table(names, rows, title="Models")]
    write_report(path, Report("gradients by distance", headline(found), blocks=blocks))


def table(found: Sequence[GradientDecay]) -> tuple[list[str], list[list[Value]]]:
    """Return the names of the columns, and a row per model."""
    columns = ["model", "factor per step", "half-life", f"remaining after {len(found[0].norms)} tokens"]
    return columns, [[one.name, f"{one.factor:.3f}", half_text(one), f"{one.norms[-1]:.2g}"] for one in found]


def headline(found: Sequence[GradientDecay]) -> str:
    """Return the result in one sentence."""
    best = max(found, key=lambda one: one.norms[-1])
    last = len(best.norms)
    if len(found) == 1:
        return f"{best.name}: {best.norms[-1]:.2g} of the gradient remains after {last} tokens."
    worst = min(found, key=lambda one: one.norms[-1])
    return (
        f"After {last} tokens, {best.norms[-1]:.2g} of the gradient of {best.name} remains, and "
        f"{worst.norms[-1]:.2g} of {worst.name}."
    )


def half_text(one: GradientDecay) -> str:
    """Format the half-life."""
    return "no decay" if one.half is None else f"{one.half:.1f} tokens"
