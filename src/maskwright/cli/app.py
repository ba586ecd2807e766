"""The `maskwright` command: its commands, their earlier names, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer

from .. import __version__
from ..core import progress
from ..core.errors import InputError
from ..core.program import launch_of, run_program
from .common import show_any_text
from .settings import HELP_OPTIONS, OrderedGroup, UsageError, usage_text

SHARED = ("pretrain", "finetune", "distill")  # commands that several processes can run together
EPILOG = "Start here: maskwright pretrain --preset bert-mini -o runs/a corpus.txt"

# MODULE:FUNCTION of each command, MODULE:app of each command group, and its line in --help, by panel, in order. Only
# what runs is imported: all of them take a quarter of a second.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Train": {
        "tokenizer": ("tokenizer:app", "Train, compare, use and explain tokenizers."),
        "pretrain": ("training:pretrain", "Pre-train an encoder on your text. Rerun the same command to resume."),
        "finetune": ("finetune:finetune", "Fine-tune a model on labeled rows. Rerun the same command to resume."),
        "distill": ("training:distill", "Distill a model into a smaller one. Rerun the same command to resume."),
        "vectors": (
            "training:vectors",
            "Train static word embeddings (word2vec). The output folder works like an encoder.",
        ),
    },
    "Use": {
        "predict": (
            "predict:predict",
            "Predict with a fine-tuned model: labels, values, entities with offsets, choices, anomaly scores.",
        ),
        "answer": ("predict:answer", "Extract answer spans from a text of any length."),
        "fill-mask": ("predict:fill_mask", "Predict masked tokens."),
        "generate": ("generate:generate", "Generate continuations of prompts with a language model."),
        "translate": ("generate:translate", "Translate texts. --json and --results add scores."),
        "embed": ("embed:embed", "Encode texts as embeddings, in input order; compare or cluster them."),
        "search": (
            "embed:search",
            "Search texts semantically. A passage is a paragraph, or consecutive sentences of a long one.",
        ),
        "scale": ("scale:app", "Corpora and bulk inference of many files and machines, with Ray Data."),
        "serve": (
            "serve:serve",
            "Serve models over HTTP: embeddings, classes, tags, answers, masked tokens, generation, translation.",
        ),
        "studio": (
            "serve:studio",
            "Serve local web pages: tokens, masked-token predictions, similarity, layers, runs, training.",
        ),
    },
    "Analyze": {
        "evaluate": (
            "evaluate:evaluate",
            "Evaluate a model. Metrics are fractions; with two classes, f1 is that of the second.",
        ),
        "inspect": (
            "inspect:inspect",
            "Show attention, head patterns, predictions and attributions for a text, or another view of a model.",
        ),
        "probe": ("inspect:probe", "Train linear probes on each frozen layer, with a control task of random labels."),
        "bench": ("bench:bench", "Measure the throughput and latency of a model on this machine, in every precision."),
        "plan": ("bench:plan", "Estimate the parameters, FLOPs, memory, time and price of a pre-training run."),
    },
    "Experiment": {
        "experiment": ("experiments:app", "Train several models under one budget and compare them."),
    },
    "Tools": {
        "doctor": ("doctor:doctor", "Check this machine and installation, a data file, or a model folder."),
        "export": (
            "export:export",
            "Export a model as a graph, with its tokenizer and settings, for programs without maskwright.",
        ),
        "push": ("export:push", "Upload a model folder to the Hugging Face Hub, in one commit. Needs the extra 'hub'."),
        "lessons": (
            "lessons:lessons",
            "List the lessons, or run some: each number of a slide next to the computed one.",
        ),
    },
}

FLAGS = ("--json", "--quiet", "--debug", "--skip-bad-rows", "--no-score")  # options without a value


def _parts(words: list[str]) -> tuple[list[str], list[str]]:
    """The arguments and the options of a command line whose flags are FLAGS."""
    arguments: list[str] = []
    options: list[str] = []
    takes_value = False
    for word in words:
        is_option = word.startswith("-") and word != "-"
        (options if is_option or takes_value else arguments).append(word)
        takes_value = is_option and word not in FLAGS and "=" not in word and not word.startswith(("-h", "--h"))
    return arguments, options


def _ensemble(words: list[str]) -> list[str]:
    """`ensemble MODEL... FILE` is `evaluate MODEL FILE --ensemble MODEL...`, and `predict` without scores."""
    arguments, options = _parts(words)
    *models, file = arguments or [""]
    first, others = models[:1], [word for name in models[1:] or models for word in ("--ensemble", name)]
    if "--no-score" in options:
        options.remove("--no-score")
        return ["predict", *first, "--input", file, *others, *options]
    return ["evaluate", *first, *filter(None, [file]), *others, *options]


def _next_sentence(words: list[str]) -> list[str]:
    """`next-sentence MODEL FIRST SECOND...` is `predict MODEL FIRST --pair SECOND`, once for each candidate."""
    arguments, options = _parts(words)
    model, first, seconds = arguments[:1], arguments[1:2], arguments[2:]
    return ["predict", *model, *first * max(len(seconds), 1), *(f"--pair={one}" for one in seconds), *options]


def _complexity(words: list[str]) -> list[str]:
    """`bench complexity --lengths N,N --width D` is the lesson of that name with these numbers."""
    _, options = _parts(words)
    values = dict(pairwise([*options, ""]))
    given = {"width": values.get("--width"), "length": values.get("--lengths", "").split(",")[-1]}
    kept = [word for flag in ("-o", "--output") if flag in values for word in (flag, values[flag])]
    numbers = [word for name, value in given.items() if value for word in ("--set", f"{name}={value}")]
    return ["lessons", "complexity", *numbers, *kept, *(one for one in options if one in FLAGS)]


# Earlier names of commands, read for one more version, and the words that replace them; a function takes the words
# that follow.
RETIRED: dict[str, str | Callable[[list[str]], list[str]]] = {
    "layer-lab": "experiment layers",
    "rare-lab": "experiment rare",
    "ladder": "experiment ladder",
    "bench-task": "experiment benchmark",
    "complete": "generate --suggest",
    "complexity": _complexity,
    "bench complexity": _complexity,
    "bench speed": "bench",
    "bench plan": "plan",
    "calibrate": "evaluate --calibrate",
    "cells": "inspect --view cells",
    "gradients": "inspect --view gradients",
    "lengths": "inspect --view lengths",
    "inspect cells": "inspect --view cells",
    "inspect gradients": "inspect --view gradients",
    "inspect lengths": "inspect --view lengths",
    "inspect page": "inspect",
    "inspect probe": "probe",
    "cluster": "embed --clusters auto",
    "similarity": "embed --matrix",
    "convert": "export --to folder",
    "doctor data": "doctor",
    "doctor model": "doctor",
    "ensemble": _ensemble,
    "next-sentence": _next_sentence,
    "lessons list": "lessons",
    "lessons run": "lessons",
    "presets --models": "pretrain --model list",
    "presets": "pretrain --preset list",
    "tokenizer compare": "tokenizer train --compare",
}


def renamed(words: list[str]) -> list[str]:
    """The words of a command line with the present name of their command; an earlier one is reported."""
    for length in (2, 1):
        old = " ".join(words[:length])
        if old in RETIRED and len(words) >= length:
            new, rest = RETIRED[old], words[length:]
            words = [*new.split(), *rest] if isinstance(new, str) else new(rest)
            shown = new if isinstance(new, str) else "lessons complexity" if new is _complexity else words[0]
            progress.warn(f"'maskwright {old}' is deprecated. Use 'maskwright {shown}'.")
            break
    return words


class Commands(OrderedGroup):
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
    """A command line with these commands and groups, which are imported; of the others only what --help lists."""
    app = typer.Typer(
        name="maskwright",
        cls=Commands,
        help="Train, fine-tune, evaluate and use language encoders such as BERT, on your own text.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=HELP_OPTIONS,
    )
    app.callback()(_root)
    for panel, commands in COMMANDS.items():
        for name, (place, about) in commands.items():
            if name not in names:
                app.command(name, help=about, rich_help_panel=panel)(_listed)
                continue
            module, _, attribute = place.partition(":")
            command = getattr(import_module(f".{module}", __package__), attribute)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, cls=command.command_class, rich_help_panel=panel)(command)
    return app


def _listed() -> None:
    """A command that is only listed."""


@cache
def whole_app() -> typer.Typer:
    """The command line with all commands, which the documentation shows."""
    return app_with(Commands.order)


def _command() -> str:
    """The name of the command on the command line; "" without one."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def _say(message: Warning | str, *place: Any) -> None:
    """A warning of the library in the form of our own, without the line of code that raised it."""
    progress.warn(str(message))


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 our failure, 2 bad input or usage, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    show_any_text()
    if not debug:
        warnings.showwarning = _say  # type: ignore[assignment]  # fewer arguments
    sys.argv[1:] = renamed(sys.argv[1:])
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
    try:
        code = app_with({_command()})(standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # whose help is printed
            typer.echo(f"error: {usage_text(error)}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _run_shared() -> int:
    """Run a command that several processes can run together; returns its exit code.

    Raises InputError for another command, and for a usage error.
    """
    name = _command()
    if name in Commands.order and name not in SHARED:
        raise InputError(f"maskwright {name} runs in one process: start it without torchrun.")
    try:
        code = app_with({_command()})(standalone_mode=False)
    except UsageError as error:
        raise InputError(usage_text(error)) from None
    return code if isinstance(code, int) else 0
