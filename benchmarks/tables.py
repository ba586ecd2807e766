"""Measured figures as Markdown: the results of every benchmark are JSON, and this is their one renderer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from maskwright.core.storage import write_text


def flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of every number and short text, nested names joined; lists are left out."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name} ")
        elif isinstance(value, int | float) or (isinstance(value, str) and len(value) < 80):
            yield prefix + name.replace("_", " "), value


def table(rows: Mapping[str, Mapping[str, Any]], ratio: str = "", first: str = "") -> list[str]:
    """A line for each row, a column for each figure. ratio: a figure that is also shown relative to that of the row
    `first`, or of the first row.
    """
    cells = {name: dict(flat(row)) for name, row in rows.items()}
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    base = cells.get(first, next(iter(cells.values()), {})).get(ratio)
    if base:
        columns.insert(columns.index(ratio) + 1, "x")
        for row in cells.values():
            if ratio in row:
                row["x"] = f"{row[ratio] / base:.2f}"
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [
        f"| {name} | {' | '.join(number(row.get(column)) for column in columns)} |" for name, row in cells.items()
    ]
    return lines


def number(value: Any) -> str:
    """A value, as exact as it was measured."""
    if value is None or isinstance(value, str | bool):
        return "" if value is None else str(value)
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}"


def write_part(page: Path, name: str, lines: list[str], title: str) -> None:
    """Replace the part of a page between the marks of `name`, or append it; the page is made if it is not there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = page.read_text(encoding="utf-8") if page.exists() else f"# {title}\n"
    before, mark, rest = whole.partition(begin)
    after = rest.partition(end)[2] if mark else ""
    text = "\n".join([begin, "", *lines, "", end])
    write_text(page, f"{before.rstrip()}\n\n{text}\n{after.lstrip()}")


def version(name: str) -> str | None:
    """Of an installed package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str:
    """Of the code that is measured; empty where git does not say."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return found.stdout.strip()
