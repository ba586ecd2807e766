"""Options for texts longer than the model takes, each declared once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

LongOption = Annotated[
    Literal["cut", "windows"] | None,
    typer.Option("--long", help="Longer texts are cut, or read in windows that overlap.  [default: cut]"),
]
LongVectorsOption = Annotated[
    Literal["cut", "windows"] | None,
    typer.Option(
        "--long",
        help="Longer texts are cut, or read in windows that overlap.  [default: as the model was trained, else cut]",
    ),
]
StrideOption = Annotated[
    int | None,
    typer.Option(
        "--stride", help="Tokens that neighbouring windows share.  [default: a third of max_length, at most 128]"
    ),
]
PoolOption = Annotated[
    Literal["mean", "max"] | None, typer.Option("--pool", help="What becomes of the windows' logits.  [default: mean]")
]
MaxWindowsOption = Annotated[
    int | None,
    typer.Option("--max-windows", help="Windows of a row in training, spread evenly over more.  [default: 32]"),
]
