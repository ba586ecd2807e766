"""Options that all commands share, and JSON and tables on standard output."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..core import progress, registry
from ..core.config import OUTPUT
from ..core.registry import nearest

# -- Options that take several values after one flag: `--dev a.tsv b.tsv` is `--dev a.tsv --dev b.tsv` ---------------
#
# Click takes one value a flag; a shell gives several where a pattern stands (`--multi-task *.tsv`).


class SeveralValues(TyperCommand):
    """A command whose repeatable options also accept several values at once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        options = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        return super().parse_args(ctx, list(spread(args, options, registry.names("task"))))


def spread(words: Sequence[str], options: Collection[str], arguments: Collection[str]) -> Iterator[str]:
    """The words with each of `options` repeated before each of its values.

    Values go on to the next option, or to one of `arguments`: words that the command takes by themselves.
    """
    option, num_values = "", 0  # whose values the next words are, and how many it has so far
    for word in words:
        if word in options:
            option, num_values = word, 0
        elif word.startswith("-") or (num_values and word in arguments):
            option = ""
        elif option:
            if num_values:
                yield option
            num_values += 1
        yield word


# -- Errors of the command line itself as one sentence each, with what was typed and the closest valid name ----------


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


def _set_quiet(quiet: bool) -> bool:
    progress.set_quiet(quiet)
    return quiet


def with_default(help: str, default: str) -> str:
    """Appends the default to a help text, in brackets escaped from rich markup."""
    return f"{help}  \\[default: {default}]" if default else help


JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Write JSON to standard output; logs go to standard error.", rich_help_panel=OUTPUT),
]
QuietFlag = Annotated[
    bool,
    typer.Option("--quiet", callback=_set_quiet, help="Suppress notes and progress bars.", rich_help_panel=OUTPUT),
]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)]


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads. None keeps the default of torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def show_any_text() -> None:
    """From now on a character that standard output or standard error cannot show is replaced, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_json(value: Any) -> None:
    """One JSON object (or value) on a line of standard output.

    What its encoding does not have is escaped; a number that JSON does not have (a correlation with what never changes)
    is null.
    """
    try:
        line = json.dumps(value, ensure_ascii=False, default=_to_json, allow_nan=False)
    except ValueError:
        value = json.loads(json.dumps(value, default=_to_json), parse_constant=lambda name: None)
        line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, default=_to_json)
    sys.stdout.write(line + "\n")


def print_text(text: str) -> None:
    """Plain text on standard output; characters that the terminal cannot show are replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding) + "\n")


LEAST_WORDS = 16  # characters that a column of words keeps in a narrow terminal
WIDEST = 1000


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", right: Iterable[str] = ()
) -> None:
    """A table on standard output; the columns named in `right` are right-aligned, and their cells are never cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    right = set(right)
    if title:
        print_text(title)  # not rich's own, which is broken into lines of the table's width
    table = Table(box=box.SIMPLE_HEAD)
    cells = [[str(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        name, is_number = Text(column.replace("_", " ")), column in right
        longest = max(map(len, [*name.plain.split(), *(row[index] for row in cells)]))
        width, least = (longest, None) if is_number else (None, min(longest, LEAST_WORDS))
        table.add_column(name, justify="right" if is_number else "left", width=width, min_width=least)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, highlight=False)
    wide = console.options.update(width=WIDEST)
    if console.measure(table, options=wide).minimum > console.width:
        table.padding = 0  # closer columns; where that is not enough, longer lines rather than lost cells
        console.width = max(console.width, console.measure(table, options=wide).minimum)
    console.print(table)


def print_metrics(metrics: Mapping[str, float]) -> None:
    """Metrics as 'name value' lines on standard output."""
    width = max((len(name) for name in metrics), default=0)
    for name, value in metrics.items():
        form = ".4f" if isinstance(value, float) and abs(value) < 1e9 else ".4g" if isinstance(value, float) else ""
        print_text(f"{name:<{width}}  {value:{form}}")


def _to_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
