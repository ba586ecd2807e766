"""Commands whose options are the settings of a configuration: options, help, recipe file and --print-config."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..core import config as configuration
from ..core.config import (
    NETWORK,
    PANELS,
    RUN,
    SET,
    Setting,
    command_line,
    default_of,
    default_text,
    flag_of,
    kind_of,
    length_of,
    parse_pairs,
    settings_of,
    typed_name,
)
from ..core.errors import ConfigError
from ..core.progress import warn
from ..core.util import THREADS
from .common import DebugFlag, QuietFlag, print_json, print_text, set_threads, with_default

if TYPE_CHECKING:
    from ..report import Command

RecipeOption = Annotated[
    Path | None,
    typer.Option("--config", help="TOML recipe for any setting; options override it.", rich_help_panel=RUN),
]
PrintConfigFlag = Annotated[
    bool, typer.Option("--print-config", help="Print the resolved recipe and stop.", rich_help_panel=RUN)
]
RestartFlag = Annotated[
    bool, typer.Option("--restart", help="Discard the run folder and restart from scratch.", rich_help_panel=RUN)
]
DryRunFlag = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and stop; nothing is written.", rich_help_panel=RUN)
]

RARE = Setting(  # of a command that sets no part of a network
    "A setting that has no option of its own. Repeatable.", flag=SET, metavar="NAME=VALUE", panel=NETWORK
)

Given = Mapping[str, Any]
REQUIRED = r"\[required]"  # of a setting that the command line or the recipe file must give


def takes_settings(
    *classes: type,
    several: tuple[str, ...] = (),
    read: Callable[[Path | None, Given], Any] | None = None,
    has_recipe: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that makes `function(settings, **options)` a command with an option for each setting of `classes`.

    The options of the function itself are added, and those that all such commands share. several: settings whose option
    takes several values, for `read`; read: recipe file and given settings -> configuration, else the first class is
    loaded; has_recipe: whether the command has --config and --print-config.
    Settings that are `recipe_only` are set by --set; their own options are hidden.
    """
    table: dict[str, tuple[Setting, Any, Any]] = {}
    for cls in classes:
        hints = typing.get_type_hints(cls)
        for one in dataclasses.fields(cls):
            kind = list[Path] if one.name in several else kind_of(hints[one.name])
            table.setdefault(one.name, (one.metadata["setting"], kind, default_of(one)))
    load = read or functools.partial(load_recipe, classes[0])
    rare = {name: one[0] for name, one in table.items() if one[0].recipe_only}
    set_by = next((name for name, one in table.items() if one[0].flag == SET), "set")
    if rare:
        setting, *rest = table.get(set_by, (RARE, dict[str, Any], {}))
        table[set_by] = (with_rare(setting, rare), *rest)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            read_values = {name: _read(name, one[0], one[1], values.pop(name)) for name, one in table.items()}
            given = {name: value for name, value in read_values.items() if value is not None}
            for name in rare.keys() & given.keys():
                warn(f"'{flag_of(name, rare[name])}' is deprecated. Use '{SET} {name}=VALUE', or {name} in a recipe.")
            assigned = given.pop(set_by, {}) if rare else {}
            given |= {name: assigned.pop(name) for name in rare.keys() & assigned.keys()}
            given |= {set_by: assigned} if assigned else {}
            shared = {name: values.pop(name, None) for name in ("config", "print_config", "threads", "quiet", "debug")}
            settings = load(shared["config"], given)
            if shared["print_config"]:
                print_recipe(settings, values["json"])
                return
            set_threads(shared["threads"] or given.get("threads"))
            function(settings, **values)

        own = typing.get_type_hints(function, include_extras=True)
        _, *names = inspect.signature(function).parameters
        options = {name: own[name] for name in names}
        if has_recipe:
            options |= {"config": RecipeOption, "print_config": PrintConfigFlag}
            if "threads" not in table:
                options["threads"] = _annotation("threads", THREADS, int, None)
        options |= {"quiet": QuietFlag, "debug": DebugFlag}
        is_required = {name: not has_recipe and one[2] is dataclasses.MISSING for name, one in table.items()}
        parameters = [
            _parameter(name, _annotation(name, *table[name], is_required[name]), ... if is_required[name] else None)
            for name in table
        ]
        parameters += [
            _parameter(name, hint, False if typing.get_args(hint)[0] is bool else None)
            for name, hint in options.items()
        ]
        parameters.sort(key=lambda one: PANELS.index(one.annotation.__metadata__[0].rich_help_panel or ""))
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # for Typer
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__doc__, command.__name__ = function.__doc__, function.__name__
        command.settings = classes  # type: ignore[attr-defined]  # read by the tests of all settings
        return command

    return decorate


class SettingsCommand(TyperCommand):
    """A command whose help shows all defaults, omits --no-flags of options that are off, and fits the terminal."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        shown = copy.copy(self)
        shown.params = [_for_help(one) for one in self.params]
        shown.help = "\n\n".join(" ".join(part.split()) for part in (self.help or "").split("\n\n"))
        super(SettingsCommand, shown).format_help(ctx, formatter)


def help_of(setting: Setting, kind: Any, default: Any, task: str | None = None) -> str:
    """The help text of a setting with its choices and its default, that of a task where one is given."""
    text = setting.help
    if typing.get_origin(kind) is typing.Literal and len(typing.get_args(kind)) > 1:
        text = f"{text.removesuffix('.')} ({', '.join(typing.get_args(kind))})."
    if default is dataclasses.MISSING and not setting.default_help:
        return f"{text}  {REQUIRED}"
    return with_default(text, default_text(setting, default, task))


def with_rare(setting: Setting, rare: Iterable[str]) -> Setting:
    """Returns the setting of --set, whose help also names the settings that have no option of their own."""
    return dataclasses.replace(setting, help=f"{setting.help} Also takes {', '.join(sorted(rare))}.")


def load_recipe(cls: type, path: Path | None, given: Given) -> Any:
    """The configuration of a recipe file and of the settings given as options, which win.

    Raises ConfigError, which names settings as people type them.
    """
    settings, in_file = settings_of(cls), configuration.read_toml(path) if path is not None else {}
    missing = [name for name in _required(cls) if name not in given and name not in in_file]
    if missing:
        names = [f"{typed_name(name, settings[name])} ({_first_words(settings[name].help)})" for name in missing]
        raise ConfigError(f"Missing: {', '.join(names)}.")
    try:
        return configuration.load(cls, path, given)
    except ConfigError as error:
        raise ConfigError(_as_typed(str(error), settings, given, in_file, path)) from None


def print_recipe(recipe: Any, json: bool) -> None:
    """A recipe on standard output, as TOML or JSON."""
    content = recipe.to_recipe() if hasattr(recipe, "to_recipe") else configuration.to_dict(recipe)
    if json:
        print_json(content)
    else:
        print_text(configuration.as_toml(content).rstrip())


def tell_if_finished(already_finished: bool) -> None:
    """Report that nothing ran because the run was already finished."""
    if already_finished:
        print_text("This run is finished; these are its results (--restart starts it over).")


def print_next(cls: type, **values: Any) -> None:
    """The command to run next, on standard output. cls: its settings; values: those that differ from the defaults."""
    print_text(f"next:   {command_line(cls, values)}")


def print_steps(steps: Iterable[Command]) -> None:
    """The suggested commands of a report, on standard output."""
    for step in steps:
        print_text(f"next:   {step.command}")


def _as_typed(message: str, settings: Mapping[str, Setting], given: Given, in_file: Given, path: Path | None) -> str:
    """An error message with the options that people type instead of the names of settings."""

    def name_of(name: str) -> str:
        if name not in settings:
            return f"'{name}'"
        if name in in_file and name not in given:
            return f"'{name}' in {path}"
        if settings[name].is_argument or settings[name].recipe_only:
            return typed_name(name, settings[name])
        return flag_of(name, settings[name])

    return re.sub(r"Setting '([\w, ]+)'", lambda found: ", ".join(map(name_of, found[1].split(", "))), message)


def _required(cls: type) -> list[str]:
    """Returns the settings without a default."""
    return [one.name for one in dataclasses.fields(cls) if default_of(one) is dataclasses.MISSING]


def _first_words(help: str) -> str:
    """What a setting is, without the details: "run folder"."""
    words = re.split(r"[;.:,] |[;.:,]$", help)[0]
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def _for_help(param: Any) -> Any:
    """An option, for its help: with its default, without the --no-flag where that is the default."""
    text = getattr(param, "help", None) or ""
    shown = copy.copy(param)
    if getattr(param, "secondary_opts", None) and text.endswith("[default: off]"):
        shown.secondary_opts = []
    if param.param_type_name == "option":
        long = [name for name in param.opts if name.startswith("--")]
        shown.opts = [name for name in param.opts if name not in long[1:]]  # those are earlier names
    is_value = param.param_type_name == "option" and not param.is_flag and not param.required
    if is_value and (param.default is None or not param.show_default) and "\\[" not in text:
        shown.help = with_default(text, "none")
    return shown


def _annotation(name: str, setting: Setting, kind: Any, default: Any, is_required: bool = False) -> Any:
    """The annotation that makes Typer's option, or argument, of a setting. is_required: Typer itself asks for it."""
    is_choice = typing.get_origin(kind) is typing.Literal
    text = help_of(setting, kind, default)
    details: dict[str, Any] = {
        "help": text.removesuffix(REQUIRED).rstrip() if is_required else text,
        "metavar": setting.metavar or ("NAME" if is_choice else None),
        "show_default": False,
        "min": setting.minimum,
        "max": setting.maximum,
        "envvar": setting.envvar or None,
    }
    taken = _taken(setting, kind)
    taken = kind_of(taken) if is_required else taken
    if setting.is_argument:
        return Annotated[taken, typer.Argument(**details)]
    names = [flag_of(name, setting), *filter(None, (setting.short, setting.old_flag))]
    if kind is bool and not names[0].startswith("--no-"):
        names[0] += "/--no-" + names[0].removeprefix("--")
    panel = setting.panel or None
    return Annotated[taken, typer.Option(*names, **details, rich_help_panel=panel, hidden=setting.recipe_only)]


def _taken(setting: Setting, kind: Any) -> Any:
    """The type of what the command line gives for a setting."""
    origin = typing.get_origin(kind)
    if origin is dict:
        return str | None if typing.get_args(kind)[1] is str else list[str] | None
    if origin is tuple and not length_of(kind):
        return str | None if setting.separator else list[typing.get_args(kind)[0]] | None  # type: ignore[misc]  # made here
    return kind | None


def _read(name: str, setting: Setting, kind: Any, value: Any) -> Any:
    """What the command line gave as the value of a setting; None where it gave nothing."""
    if value is None or value == []:
        return None
    if typing.get_origin(kind) is dict:
        is_pairs = typing.get_args(kind)[1] is str
        return parse_pairs(value, flag_of(name, setting)) if is_pairs else configuration.assignments(value)
    if setting.separator:
        values = tuple(part.strip() for part in value.split(setting.separator) if part.strip())
        if not values:
            raise ConfigError(f"{flag_of(name, setting)} is empty: name at least one, or remove it for the default.")
        return values
    return value


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
