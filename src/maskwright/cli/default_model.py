"""Commands whose MODEL may be left out: `maskwright embed "a text"` uses the built-in model.

The first word of such a command is a model or already a text (or a file), so the rule is by form. A model is a short
name, an existing folder of a model, one word with a slash (a path or OWNER/NAME), or one word that further words or
--input follow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.progress import note
from ..hub.download import HUB, is_hub_name
from ..hub.published import ENGLISH, is_short_name
from .settings import SettingsCommand
from .usage import UsageError

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
