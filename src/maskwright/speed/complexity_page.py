"""The page of the complexity table: what is published, what was measured, and the powers of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..train.report import Block, Chart, Curves, Report, Series, Table, write_report
from .complexity import Measured


def write_complexity(path: Path, lengths: Sequence[int], width: int, found: Sequence[Measured]) -> None:
    """Write the page of layers measured at `lengths`."""
    chart = Chart(
        f"Milliseconds of a layer of width {width}",
        [Series(one.kind.name, list(lengths), [1e3 * value for value in one.seconds]) for one in found],
        x_label="tokens",
        log_y=True,
    )
    columns, rows = table(lengths, found)
    blocks: list[Block] = [Table(columns, rows, title="Layers"), Curves([chart], title="As texts grow")]
    write_report(path, Report("complexity", headline(found), blocks=blocks))


def headline(found: Sequence[Measured]) -> str:
    """The fitted powers, in a sentence."""
    parts = [f"{one.kind.name} {one.fitted:.2f} (published {one.kind.power})" for one in found]
    return f"Time grows with the length to the power of: {', '.join(parts)}."


def table(lengths: Sequence[int], found: Sequence[Measured]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for people."""
    columns = ["layer", "cost", "steps in turn", "longest way", *(f"n={length:,}" for length in lengths), "power of n"]
    rows = [
        [
            one.kind.name,
            f"O({one.kind.cost})",
            f"O({one.kind.sequential})",
            f"O({one.kind.path})",
            *(f"{1e3 * value:.3g} ms" for value in one.seconds),
            f"{one.fitted:.2f} ({one.kind.power})",
        ]
        for one in found
    ]
    return columns, rows
