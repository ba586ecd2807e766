"""Commands whose options are the settings of a configuration: options, help, recipe file, results, errors of usage."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

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
from ..core.progress import note, warn
from ..core.registry import nearest
from ..core.util import THREADS, keep_to_quota
from ..hub.download import HUB, is_hub_name
from ..hub.published import ENGLISH, is_short_name
from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_parts, print_text

RecipeOption = Annotated[
    Path | None, typer.Option("--config", help="TOML recipe for any setting; options override it.", rich_help_panel=RUN)
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
REQUIRED = "[required]"  # of a setting that the command line or the recipe file must give
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def takes_settings(
    *classes: type,
    several: tuple[str, ...] = (),
    read: Callable[[Path | None, Given], Any] | None = None,
    has_recipe: bool = False,
    command_class: type[TyperCommand] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator that makes `function(settings, **options)` a command with an option for each setting of `classes`.

    The function prints, or yields results: a value for --json, and the parts that are printed without it (see
    `common.print_parts`). Its own options are added, and those that all commands share. Settings that are `recipe_only`
    are set by --set; their own options are hidden.

    Args:
        several: Settings whose option takes several values, for `read`.
        read: Recipe file and given settings -> configuration; else the first class is loaded.
        has_recipe: Whether the command has --config and --print-config.
        command_class: Class of the command, where it is not SettingsCommand.
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

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        own = typing.get_type_hints(function, include_extras=True)
        options = {name: own[name] for name in list(inspect.signature(function).parameters)[1:]}
        wants_json = "json" in options

        def command(**values: Any) -> None:
            read_values = {name: _read(name, one[0], one[1], values.pop(name)) for name, one in table.items()}
            given = {name: value for name, value in read_values.items() if value is not None}
            for name in rare.keys() & given.keys():
                warn(f"'{flag_of(name, rare[name])}' is deprecated. Use '{SET} {name}=VALUE', or {name} in a recipe.")
            assigned = given.pop(set_by, {}) if rare else {}
            given |= {name: assigned.pop(name) for name in rare.keys() & assigned.keys()}
            given |= {set_by: assigned} if assigned else {}
            shared = {name: values.pop(name, None) for name in ("config", "print_config", "threads", "quiet", "debug")}
            json = values["json"] if wants_json else values.pop("json")
            settings = load(shared["config"], given)
            if shared["print_config"]:
                content = settings.to_recipe() if hasattr(settings, "to_recipe") else configuration.to_dict(settings)
                print_json(content) if json else print_text(configuration.as_toml(content).rstrip())
                return
            threads = shared["threads"] or given.get("threads")
            if threads is not None:
                import torch

                torch.set_num_threads(threads)
            else:
                keep_to_quota()
            for value, parts in function(settings, **values) or ():
                print_json(value) if json else print_parts(parts)

        options.setdefault("json", JsonFlag)
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
        command.command_class = command_class or SettingsCommand  # type: ignore[attr-defined]
        return command

    return decorate


def make_group(help: str, commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    """A group of commands by name."""
    app = typer.Typer(help=help, no_args_is_help=True, context_settings=HELP_OPTIONS)
    for name, command in commands.items():
        app.command(name, cls=command.command_class)(command)  # type: ignore[attr-defined]
    return app


class OrderedGroup(TyperGroup):
    """The `maskwright` command, with its commands in the order in which they are listed."""

    order: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=self.order.index)


class SettingsCommand(TyperCommand):
    """A command whose help shows all defaults, omits --no-flags of options that are off, and fits the terminal.

    A repeatable option also takes several values at once, as where the shell replaces a pattern.
    """

    words: Collection[str] = ()  # arguments that end the values of an option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.words:
            options = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
            args = list(spread(args, options, self.words))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: plain text in two columns, the options by panel."""
        shown = copy.copy(self)
        shown.params = [_for_help(one) for one in self.params]
        about, _, examples = (self.help or "").partition("\n\nExamples:\n\n")
        shown.help = "\n\n".join(" ".join(part.split()) for part in about.split("\n\n"))
        if examples:
            lines = [" ".join(part.split()) for part in examples.split("\n\n")]
            shown.help += "\n\n\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        super(TyperCommand, shown).format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each panel in its section."""
        for panel in PANELS:
            own = [one for one in self.get_params(ctx) if (getattr(one, "rich_help_panel", None) or "") == panel]
            records = [record for one in own if (record := one.get_help_record(ctx)) is not None]
            if records:
                formatter.write(f"{panel}:\n" if panel else "\nOptions:\n")
                with formatter.indentation():
                    formatter.write_dl(records, col_max=26)


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


# -- Commands whose MODEL may be left out: `maskwright embed "a text"` uses the built-in model -----------------------
#
# The first word of such a command is a model or already a text (or a file), so the rule is by form. A model is a short
# name, an existing folder of a model, one word with a slash (a path or OWNER/NAME), or one word that further words or
# --input follow.


MODEL_FILES = ("config.json", "modules.json", "adapter_config.json")


class DefaultModelCommand(SettingsCommand):
    """A command that inserts the built-in model where the command line names none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_default = not self._names_model(ctx, args)
        rest = super().parse_args(ctx, [ENGLISH, *args] if is_default else args)
        if is_default:
            tell_default("pass another one first")
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, in which MODEL is optional and has a default."""
        shown = copy.copy(self)
        model, *others = shown.params
        optional: Any = copy.copy(model)
        optional.required, optional.metavar = False, "MODEL"
        optional.help = f"{optional.help}  [default: {ENGLISH}, which is built in]"
        shown.params = [optional, *others]
        super(DefaultModelCommand, shown).format_help(ctx, formatter)

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
        return is_model(words[0], len(words) > 1 or bool(values.get("input")), takes_files)


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


def tell_default(other: str) -> None:
    """State that the built-in model is used. other: how another one is chosen."""
    note(f"Model: {ENGLISH}, which is built in ({other}).")


# -- Recipes, and what commands say at their end ---------------------------------------------------------------------


def load_recipe(cls: type, path: Path | None, given: Given) -> Any:
    """The configuration of a recipe file and of the settings given as options, which win.

    Raises ConfigError, which names settings as people type them.
    """
    settings, in_file = settings_of(cls), configuration.read_toml(path) if path is not None else {}
    required = [one.name for one in dataclasses.fields(cls) if default_of(one) is dataclasses.MISSING]
    missing = [name for name in required if name not in given and name not in in_file]
    if missing:
        names = [f"{typed_name(name, settings[name])} ({_first_words(settings[name].help)})" for name in missing]
        raise ConfigError(f"Missing: {', '.join(names)}.")

    def name_of(name: str) -> str:
        if name not in settings:
            return f"'{name}'"
        if name in in_file and name not in given:
            return f"'{name}' in {path}"
        if settings[name].is_argument or settings[name].recipe_only:
            return typed_name(name, settings[name])
        return flag_of(name, settings[name])

    try:
        return configuration.load(cls, path, given)
    except ConfigError as error:
        typed = re.sub(r"Setting '([\w, ]+)'", lambda found: ", ".join(map(name_of, found[1].split(", "))), str(error))
        raise ConfigError(typed) from None


FINISHED = "This run is finished; these are its results (--restart starts it over)."


def next_command(cls: type, **values: Any) -> str:
    """The line that names the command to run next. cls: its settings; values: those that differ from the defaults."""
    return f"next:   {command_line(cls, values)}"


# -- Errors of the command line itself as one sentence each, with what was typed and the closest valid name ----------


UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # Typer 0.29 has its own copy of click, earlier ones not


def usage_text(error: Any) -> str:
    """The message of a usage error: what is wrong, the closest valid one, and where help is."""
    text = error.format_message().strip()
    param, command = getattr(error, "param", None), error.ctx.command_path if error.ctx is not None else "maskwright"
    command = re.sub(r"^.*maskwright\b", "maskwright", command)
    known = [] if error.ctx is None else [name for one in error.ctx.command.get_params(error.ctx) for name in one.opts]
    typed = getattr(error, "option_name", None) or ""
    if type(error).__name__ == "BadOptionUsage" and typed:
        text = f"{typed} needs a value."
    elif type(error).__name__ == "NoSuchOption":
        others = [one for one in known if one.startswith("--") and typed.startswith("--")]
        argument = typed.removeprefix("--").replace("-", "_")
        hint = f" {argument.upper()} is an argument: type only its value." if argument in known else ""
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
    reason = re.sub(r"^(Invalid value for '[^']*'(?: / '[^']*')*: )?(Value error, )?", "", text)
    if number := re.match(r"Input should be a valid (integer|number)", reason):
        return f"{name} takes a {'whole ' if number[1] == 'integer' else ''}number, and got something else."
    choices = re.findall(r"'([^']*)'", reason.partition(" is not one of ")[2])
    wrong = re.match(r"'([^']*)' is not one of ", reason)
    return f"{name}: {reason}{_did_you_mean(wrong[1], choices) if wrong else ''}"


def _did_you_mean(typed: str, known: list[str]) -> str:
    near = nearest(typed, known)
    return f" Did you mean {near}?" if near else ""


# -- Typer's options and their help ----------------------------------------------------------------------------------


def with_default(help: str, default: str) -> str:
    """Appends the default to a help text, in brackets."""
    return f"{help}  [default: {default}]" if default else help


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


def _first_words(help: str) -> str:
    """What a setting is, without the details: "run folder"."""
    words = re.split(r"[;.:,] |[;.:,]$", help)[0]
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def _for_help(param: Any) -> Any:
    """An option, for its help: without earlier names, and without the default and the --no-flag where it is off."""
    text, shown = getattr(param, "help", None) or "", copy.copy(param)
    if text.endswith("[default: off]"):
        shown.secondary_opts = []
    if param.param_type_name == "option":
        long = [name for name in param.opts if name.startswith("--")]
        shown.opts = [name for name in param.opts if name not in long[1:]]
    shown.help = re.sub(r" +\[default: (off|none)\]$", "", text)
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
    names = [flag_of(name, setting), *filter(None, (setting.short, *setting.old_flag.split()))]
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
