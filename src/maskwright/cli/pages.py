"""The option for an HTML page of results, and the check of its path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.config import check

PageOption = Annotated[Path | None, typer.Option("-o", "--output", help="Write an HTML page to this .html file.")]


def check_page(output: Path | None) -> None:
    """Raise ConfigError for a page that does not end in .html, or that cannot be written at its path."""
    if output is None:
        return
    check(output.suffix.lower() == ".html", f"{output} is not a page: use a file name that ends in .html.")
    check(not output.is_dir(), f"{output} is a folder: use the name of a file.")
    nearest = next(part for part in output.absolute().parents if part.exists())
    check(nearest.is_dir(), f"{output} cannot be written: {nearest} is a file. Choose another folder.")
