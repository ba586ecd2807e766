"""The setting for an HTML page of results, the check of its path, and the results on standard output."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.config import check, option
from ..core.progress import note
from ..hub.download import HUB, is_hub_name
from ..hub.published import ENGLISH, is_short_name
from .common import UsageError, print_json, print_table, print_text
from .settings import SettingsCommand


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


# -- Commands whose MODEL may be left out: `maskwright embed "a text"` uses the built-in model -----------------------
#
# The first word of such a command is a model or already a text (or a file), so the rule is by form. A model is a short
# name, an existing folder of a model, one word with a slash (a path or OWNER/NAME), or one word that further words or
# --input follow.


MODEL_FILES = ("config.json", "modules.json", "adapter_config.json")


def with_default_model(function: Callable[..., None]) -> Callable[..., None]:
    """Declares that `function`, a command whose first argument is `model`, uses the built-in model without one."""
    function.command_class = DefaultModelCommand  # type: ignore[attr-defined]  # read where commands are registered
    return function


def tell_default(other: str) -> None:
    """State that the built-in model is used. other: how another one is chosen."""
    note(f"Model: {ENGLISH}, which is built in ({other}).")


class DefaultModelCommand(SettingsCommand):
    """A command that inserts the built-in model where the command line names none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        is_default = not self._names_model(ctx, args)
        rest = super().parse_args(ctx, [ENGLISH, *args] if is_default else args)
        if is_default:
            tell_default("pass another one first")
        return rest

    @property
    def documented(self) -> DefaultModelCommand:
        """The command as its help describes it: MODEL is optional and has a default."""
        shown = copy.copy(self)
        model, *others = shown.params
        optional: Any = copy.copy(model)
        optional.required, optional.metavar = False, "MODEL"
        optional.help = f"{optional.help}  \\[default: {ENGLISH}, which is built in]"
        shown.params = [optional, *others]
        return shown

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with the default of MODEL."""
        super(DefaultModelCommand, self.documented).format_help(ctx, formatter)

    def _names_model(self, ctx: Any, args: list[str]) -> bool:
        """Whether the first positional word is a model."""
        try:
            values, _, _ = self.make_parser(ctx).parse_args(list(args))
        except UsageError:
            return True  # reported by the full parser
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        given = [values.get(one.name) for one in arguments]
        words = [word for one in given for word in ([one] if isinstance(one, str) else one or ())]
        if not words:
            return False
        takes_files = any(one.name in ("folder", "file") for one in arguments)
        has_more = len(words) > 1 or isinstance(values.get("input"), str)
        return is_model(words[0], has_more, takes_files)


def is_model(word: str, has_more: bool, takes_files: bool) -> bool:
    """Whether the first word of a command is a model.

    Args:
        has_more: Whether other words or --input follow.
        takes_files: Whether the command reads files or folders after the model, which exist too.
    """
    path = Path(word)
    if is_short_name(word) or word.startswith(HUB):
        return True
    if "\0" not in word and len(word) < 4096 and path.exists():
        return not takes_files or any((path / name).is_file() for name in MODEL_FILES)
    if len(word.split()) != 1:
        return False
    return "/" in word or (has_more and is_hub_name(word))  # a mistyped path is an error, not a text
