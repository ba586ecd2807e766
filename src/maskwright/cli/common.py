"""What commands print: JSON or text, tables; and the options that all commands have."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core import progress
from ..core.config import OUTPUT


def _set_quiet(quiet: bool) -> bool:
    progress.set_quiet(quiet)
    return quiet


JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Write JSON to standard output; logs go to standard error.", rich_help_panel=OUTPUT),
]
QuietFlag = Annotated[
    bool, typer.Option("--quiet", callback=_set_quiet, help="Suppress notes and progress bars.", rich_help_panel=OUTPUT)
]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)]


# What a command yields: the value that --json prints, and the parts that are printed without it. A part is a text, a
# Table, a mapping of metrics, or None.
Part = Any
Result = tuple[Any, Iterable[Part]]


@dataclass(frozen=True)
class Table:
    """A table on standard output; the columns named in `right` are right-aligned."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]
    title: str = ""
    right: Iterable[str] = ()


def print_parts(parts: Iterable[Part]) -> None:
    """Prints the parts of a result in order."""
    for part in parts:
        if isinstance(part, Table):
            print_table(part.columns, part.rows, part.title, part.right)
        elif isinstance(part, Mapping):
            print_metrics(part)
        elif part is not None:
            print_text(part)


def show_any_text() -> None:
    """From now on a character that standard output or standard error cannot show is replaced, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_json(value: Any) -> None:
    """One JSON object (or value) on a line of standard output.

    What its encoding does not have is escaped; a number that JSON does not have (a correlation with what never changes)
    is null.
    """
    try:
        line = json.dumps(value, ensure_ascii=False, default=_to_json, allow_nan=False)
    except ValueError:
        value = json.loads(json.dumps(value, default=_to_json), parse_constant=lambda name: None)
        line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, default=_to_json)
    sys.stdout.write(line + "\n")


def print_text(text: str) -> None:
    """Plain text on standard output; characters that the terminal cannot show are replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding) + "\n")


LEAST_WORDS = 16  # characters that a column of words keeps in a narrow terminal
WIDEST = 1000


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", right: Iterable[str] = ()
) -> None:
    """A table on standard output; the columns named in `right` are right-aligned, and their cells are never cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    right = set(right)
    if title:
        print_text(title)  # not rich's own, which is broken into lines of the table's width
    table = Table(box=box.SIMPLE_HEAD)
    cells = [[str(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        name, is_number = Text(column.replace("_", " ")), column in right
        longest = max(map(len, [*name.plain.split(), *(row[index] for row in cells)]))
        width, least = (longest, None) if is_number else (None, min(longest, LEAST_WORDS))
        table.add_column(name, justify="right" if is_number else "left", width=width, min_width=least)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, highlight=False)
    wide = console.options.update(width=WIDEST)
    if console.measure(table, options=wide).minimum > console.width:
        table.padding = 0  # closer columns; where that is not enough, longer lines rather than lost cells
        console.width = max(console.width, console.measure(table, options=wide).minimum)
    console.print(table)


def print_metrics(metrics: Mapping[str, float]) -> None:
    """Metrics as 'name value' lines on standard output."""
    width = max((len(name) for name in metrics), default=0)
    for name, value in metrics.items():
        form = ".4f" if isinstance(value, float) and abs(value) < 1e9 else ".4g" if isinstance(value, float) else ""
        print_text(f"{name:<{width}}  {value:{form}}")


def _to_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
