"""The `maskwright` command: its commands, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from .. import __version__
from ..core import progress
from ..core.errors import InputError
from ..core.program import launch_of, run_program
from .common import UsageError, show_any_text, usage_text
from .groups import RootGroup, class_of

SHARED = ("pretrain", "finetune", "distill")  # commands that several processes can run together
EPILOG = "Start here: maskwright pretrain --preset bert-mini -o runs/a corpus.txt"

# MODULE:FUNCTION of each command, MODULE:app of each command group, by panel of --help, in its order. Only what runs is
# imported: all of them take a quarter of a second.
COMMANDS: dict[str, dict[str, str]] = {
    "Train": {
        "tokenizer": "tokenizer:app",
        "pretrain": "pretrain:pretrain",
        "finetune": "finetune:finetune",
        "distill": "distill:distill",
        "vectors": "vectors:vectors",
        "calibrate": "calibrate:calibrate",
    },
    "Use": {
        "predict": "predict:predict",
        "answer": "answer:answer",
        "fill-mask": "fill_mask:fill_mask",
        "next-sentence": "next_sentence:next_sentence",
        "generate": "generate:generate",
        "translate": "translate:translate",
        "embed": "embed:embed",
        "similarity": "similarity:similarity",
        "search": "search:search",
        "cluster": "cluster:cluster",
        "ensemble": "ensemble:ensemble",
        "scale": "scale:app",
        "serve": "serve:serve",
    },
    "Analyze": {
        "evaluate": "evaluate:evaluate",
        "inspect": "inspect:app",
        "bench": "bench:app",
        "plan": "bench.plan:plan",
    },
    "Experiment": {"experiment": "experiments:app"},
    "Tools": {
        "doctor": "doctor:app",
        "convert": "convert:convert",
        "export": "export:export",
        "push": "push:push",
        "presets": "presets:presets",
        "lessons": "lessons:app",
        "studio": "studio:studio",
    },
}


class Commands(RootGroup):
    """The root command with the order of its commands."""

    order = tuple(name for commands in COMMANDS.values() for name in commands)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maskwright {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def app_with(names: Collection[str]) -> typer.Typer:
    """Import these commands and groups; returns a command line of them."""
    app = typer.Typer(
        name="maskwright",
        cls=Commands,
        help="Train, fine-tune, evaluate and use language encoders such as BERT, on your own text.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for panel, commands in COMMANDS.items():
        for name, place in commands.items():
            if name not in names:
                continue
            module, _, attribute = place.partition(":")
            command = getattr(import_module(f".{module}", __package__), attribute)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, cls=class_of(command), rich_help_panel=panel)(command)
    return app


@cache
def whole_app() -> typer.Typer:
    """The command line with all commands, which --help and the documentation show."""
    return app_with(app_commands())


def _app() -> typer.Typer:
    """The command line as far as these arguments need it."""
    name = _command()
    return app_with({name}) if name in app_commands() else whole_app()


def _say(message: Warning | str, *place: Any) -> None:
    """A warning of the library in the form of our own, without the line of code that raised it."""
    progress.warn(str(message))


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 our failure, 2 bad input or usage, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    show_any_text()
    if not debug:
        warnings.showwarning = _say  # type: ignore[assignment]  # fewer arguments
    run_program(_run, debug=debug)


def _run() -> None:
    """Run the command, as one of several processes under torchrun.

    The environment variables alone may be those of a cluster job in whose shell another command runs.
    """
    launch = launch_of()
    if launch is not None and launch.world > 1 and (launch.is_torchrun or _command() in SHARED):
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # torch prints pages when a connection ends
        from ..train.distributed import run_member

        run_member(launch, _run_shared, debug="--debug" in sys.argv[1:])
    _run_alone()


def _run_shared() -> int:
    """Run a command that several processes can run together; returns its exit code.

    Raises InputError for another command, and for a usage error.
    """
    name = _command()
    if name in app_commands() and name not in SHARED:
        raise InputError(f"maskwright {name} runs in one process: start it without torchrun.")
    try:
        code = _app()(standalone_mode=False)
    except UsageError as error:
        raise InputError(usage_text(error)) from None
    return code if isinstance(code, int) else 0


def _command() -> str:
    """The name of the command on the command line; "" without one."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def app_commands() -> set[str]:
    """The names of all commands."""
    return {name for commands in COMMANDS.values() for name in commands}


def _run_alone() -> None:
    """Run the command. A usage error is reported like any other error."""
    try:
        code = _app()(standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # whose help is printed
            typer.echo(f"error: {usage_text(error)}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
