"""Options for texts longer than the model takes, each declared once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .common import with_default

LongVectorsOption = Annotated[
    Literal["cut", "windows"] | None,
    typer.Option(
        "--long",
        help=with_default(
            "Truncate longer texts (cut), or split them into overlapping windows.", "as the model was trained, else cut"
        ),
    ),
]
StrideOption = Annotated[
    int | None,
    typer.Option(
        "--stride",
        help=with_default("Overlap of adjacent windows, in tokens.", "a third of --max-length, at most 128"),
    ),
]
