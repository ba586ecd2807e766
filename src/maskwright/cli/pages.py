"""The setting for an HTML page of results, the check of its path, and the results on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.config import check
from ..core.options import option
from .common import print_json, print_table, print_text


@dataclass(frozen=True, kw_only=True)
class Page:
    """Where a command writes its page."""

    output: Path | None = option(None, "Write an HTML page to this file.", short="-o")


def check_page(output: Path | None) -> None:
    """Raise ConfigError for a page that does not end in .html, or that cannot be written at its path."""
    if output is None:
        return
    check(output.suffix.lower() == ".html", f"{output} is not a page: use a file name that ends in .html.")
    check(not output.is_dir(), f"{output} is a folder: use the name of a file.")
    nearest = next(part for part in output.absolute().parents if part.exists())
    check(nearest.is_dir(), f"{output} cannot be written: {nearest} is a file. Choose another folder.")


def show_results(
    settings: Page,
    as_json: Any,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    headline: str,
    *,
    json: bool,
    right: Iterable[str] = (),
) -> None:
    """Prints `as_json` with --json, else a table, its headline and where the page is."""
    if json:
        print_json(as_json)
        return
    print_table(columns, rows, right=right)
    print_text(headline)
    if settings.output is not None:
        print_text(f"page: {settings.output}")
