"""The page of fading gradients: a line for each network, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..train.report import Block, Chart, Curves, Report, Series, Table, write_report
from .gradients import Fading


def write_gradients(path: Path, found: Sequence[Fading]) -> None:
    """Write the page: norms by distance, and what each network has left."""
    chart = Chart(
        "Norm of the gradient by distance",
        [Series(one.name, list(range(1, len(one.norms) + 1)), list(one.norms)) for one in found],
        x_label="tokens back",
        log_y=True,
    )
    note = (
        "The gradient of the loss of one token for what was remembered so many tokens before it, as a part of that for "
        "the token just before."
    )
    rows = [[one.name, f"{one.factor:.3f}", half_text(one), f"{one.norms[-1]:.2g}"] for one in found]
    last = len(found[0].norms)
    columns = ["Network", "A step multiplies by", "Half is left after", f"Left after {last} tokens"]
    blocks: list[Block] = [Curves([chart], title="Fading", note=note), Table(columns, rows, title="Networks")]
    write_report(path, Report("gradients by distance", headline(found), blocks=blocks))


def headline(found: Sequence[Fading]) -> str:
    """What fades least, in a sentence."""
    best = max(found, key=lambda one: one.norms[-1])
    last = len(best.norms)
    if len(found) == 1:
        return f"{best.name}: {best.norms[-1]:.2g} of the gradient is left after {last} tokens."
    worst = min(found, key=lambda one: one.norms[-1])
    return (
        f"After {last} tokens {best.name} has {best.norms[-1]:.2g} of its gradient left, {worst.name} "
        f"{worst.norms[-1]:.2g}."
    )


def half_text(one: Fading) -> str:
    """After how many tokens half is left, in words."""
    return "it does not fade" if one.half is None else f"{one.half:.1f} tokens"
