"""Command groups: a default command, the order of `--help`, and earlier names of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from ..core.progress import warn
from .settings import SettingsCommand

# Earlier names, read for one more version: what they stand for now.
RENAMED = {
    "layer-lab": ("experiment", "layers"),
    "rare-lab": ("experiment", "rare"),
    "ladder": ("experiment", "ladder"),
    "bench-task": ("experiment", "benchmark"),
    "probe": ("inspect", "probe"),
    "cells": ("inspect", "cells"),
    "lengths": ("inspect", "lengths"),
    "gradients": ("inspect", "gradients"),
    "complexity": ("bench", "complexity"),
    "complete": ("generate", "--suggest"),
}


class RootGroup(TyperGroup):
    """The `maskwright` command. It accepts the earlier names of commands, with a deprecation warning."""

    order: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of `--help`."""
        return sorted(self.commands, key=self.order.index)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names, under its present name."""
        name, *rest = args
        if name in RENAMED:
            new = RENAMED[name]
            warn(f"'maskwright {name}' is deprecated. Use 'maskwright {' '.join(new)}'.")
            args = [*new, *rest]
        return super().resolve_command(ctx, args)


class DefaultGroup(TyperGroup):
    """A group whose first command runs where the command line names none: `bench MODEL` is `bench speed MODEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def class_of(command: Callable[..., None]) -> type[SettingsCommand]:
    """The class of a command: its own (`command_class`), else SettingsCommand."""
    return getattr(command, "command_class", SettingsCommand)


def make_group(
    help: str, commands: Mapping[str, Callable[..., None]], cls: type[TyperGroup] = TyperGroup
) -> typer.Typer:
    """A group of commands by name. cls: DefaultGroup where the first of them may go unnamed."""
    app = typer.Typer(
        help=help, cls=cls, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
    )
    for name, command in commands.items():
        app.command(name, cls=class_of(command))(command)
    return app
