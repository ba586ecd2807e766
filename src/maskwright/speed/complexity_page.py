"""HTML report of the complexity table: published and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..report import Block, Chart, Curves, Report, Series, Table, write_report
from .complexity import Measured


def write_complexity(path: Path, lengths: Sequence[int], width: int, found: Sequence[Measured]) -> None:
    """Write the report of layers measured at `lengths`."""
    chart = Chart(
        f"Milliseconds of a layer of width {width}",
        [Series(one.kind.name, list(lengths), [1e3 * value for value in one.seconds]) for one in found],
        x_label="tokens",
        log_y=True,
    )
    columns, rows = table(lengths, found)
    blocks: list[Block] = [Table(columns, rows, title="Layers"), Curves([chart], title="Time by sequence length")]
    write_report(path, Report("complexity", headline(found), blocks=blocks))


def headline(found: Sequence[Measured]) -> str:
    """Return the fitted exponents in one sentence."""
    parts = [f"{one.kind.name} {one.fitted:.2f} (published {one.kind.power})" for one in found]
    return f"Measured exponent of the sequence length: {', '.join(parts)}."


def table(lengths: Sequence[int], found: Sequence[Measured]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table."""
    columns = [
        "layer",
        "complexity",
        "sequential operations",
        "maximum path length",
        *(f"n={length:,}" for length in lengths),
        "exponent of n",
    ]
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
