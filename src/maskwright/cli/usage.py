"""Errors of the command line itself as one sentence each, with what was typed and the closest valid name."""

from __future__ import annotations

import re
from typing import Any

import typer

from ..core.registry import nearest

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # Typer 0.29 has its own copy of click, earlier ones not


def usage_text(error: Any) -> str:
    """The message of a usage error: what is wrong, the closest valid one, and where help is."""
    text = error.format_message().strip()
    param, command = getattr(error, "param", None), error.ctx.command_path if error.ctx is not None else "maskwright"
    command = re.sub(r"^.*maskwright\b", "maskwright", command)
    known = _parameters(error.ctx)
    typed = getattr(error, "option_name", None) or ""
    if type(error).__name__ == "BadOptionUsage" and typed:
        text = f"{typed} needs a value."
    elif type(error).__name__ == "NoSuchOption":
        others = [one for one in known if one.startswith("--") and typed.startswith("--")]
        argument = typed.removeprefix("--").replace("-", "_")
        is_argument = argument in known
        hint = f" {argument.upper()} is an argument: type only its value." if is_argument else ""
        text = f"{command} has no option {typed}.{hint or _did_you_mean(typed, others)}"
    elif param is not None:
        text = _of_parameter(error, param, text)
    return f"{text}\nRun {command} --help for all options."


def _of_parameter(error: Any, param: Any, text: str) -> str:
    """A missing or wrong value of an option or argument."""
    name = "/".join(sorted(param.opts, key=len)) if param.opts[0].startswith("-") else param.name.upper()
    if "missing" in type(error).__name__.lower():
        about = re.split(r"[;:.,]", getattr(param, "help", None) or "")[0]
        return f"Missing: {name}{f' ({about[:1].lower()}{about[1:]})' if about else ''}."
    reason = re.sub(r"^Invalid value for '[^']*'(?: / '[^']*')*: ", "", text)
    reason = re.sub(r"^Value error, ", "", reason)
    number = re.match(r"Input should be a valid (integer|number)", reason)
    if number:
        kind = "a whole number" if number[1] == "integer" else "a number"
        return f"{name} takes {kind}, and got something else."
    choices = re.findall(r"'([^']*)'", reason.partition(" is not one of ")[2])
    wrong = re.match(r"'([^']*)' is not one of ", reason)
    return f"{name}: {reason}{_did_you_mean(wrong[1], choices) if wrong else ''}"


def _parameters(ctx: Any) -> list[str]:
    """The long and short options of a command, and the names of its arguments."""
    return [] if ctx is None else [name for one in ctx.command.get_params(ctx) for name in one.opts]


def _did_you_mean(typed: str, known: list[str]) -> str:
    near = nearest(typed, known)
    return f" Did you mean {near}?" if near else ""
