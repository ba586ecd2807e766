"""Options that the training commands share, each declared once, and how they become a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ..core import config as configuration
from .common import print_json, print_text

Config = TypeVar("Config")

OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="The run folder.")]
MaxLengthOption = Annotated[int | None, typer.Option(help="Tokens of one sequence, at most.")]
AccumulationOption = Annotated[int | None, typer.Option(help="Micro-batches that make a step.")]
ActivationCheckpointingFlag = Annotated[
    bool,
    typer.Option("--activation-checkpointing", help="Less memory: layers run again for their gradients."),
]
LearningRateOption = Annotated[float | None, typer.Option(help="Peak learning rate.")]
WarmupOption = Annotated[float | None, typer.Option(help="Share of the steps (< 1) or number of steps.")]
ScheduleOption = Annotated[
    Literal["linear", "cosine", "constant", "inverse_sqrt"] | None, typer.Option(help="How the rate falls.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change the preset's network, as in positions=rotary or attention=big_bird. Repeatable.",
    ),
]
RecipeOption = Annotated[
    Path | None, typer.Option("--config", help="A TOML recipe; it sets anything a flag can, and flags win.")
]
TensorBoardFlag = Annotated[bool, typer.Option("--tensorboard", help="Also write the log for TensorBoard.")]
PrintConfigFlag = Annotated[bool, typer.Option("--print-config", help="Show the resulting recipe and stop.")]
RestartFlag = Annotated[bool, typer.Option("--restart", help="Discard what the run folder holds and start over.")]


def load_recipe(cls: type[Config], path: Path | None, flags: Mapping[str, Any]) -> Config:
    """The recipe of a file and of the flags that were given.

    flags: the command's parameters; those that are no setting of `cls`, and those left at None, False or empty, do not
    count. Raises ConfigError.
    """
    settings = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given = {name: value for name, value in flags.items() if name in settings and _is_given(value)}
    return configuration.load(cls, path, given)


def print_recipe(recipe: Any, json: bool) -> None:
    """A recipe on standard output, as TOML or JSON."""
    if json:
        print_json(configuration.to_dict(recipe))
    else:
        print_text(configuration.to_toml(recipe).rstrip())


def tell_if_finished(already_finished: bool) -> None:
    """Say that nothing was run, where the run folder was complete before."""
    if already_finished:
        print_text("This run is finished; here is what it found (--restart would start it over).")


def _is_given(value: Any) -> bool:
    """Whether a parameter was set; 0 is a value and counts."""
    return value is not None and value is not False and value not in ([], {})
