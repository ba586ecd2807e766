"""Settings: metadata of configuration fields, and the command line that sets them.

A setting is one dataclass field made by `option`. Name, type and default are those of the field; help, unit, option
name and the rest are in its `Setting`. Command-line options, `--help` and the commands in reports are generated from
these.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import shlex
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Union

from . import registry
from .config import from_dict
from .errors import ConfigError

# Panels of --help, in order. The first is for the most common settings.
COMMON = ""
TASK = "Options of one task"
DATA = "Data"
VOCABULARY = "Vocabulary"
NETWORK = "Network"
OBJECTIVE = "Objective"
OPTIMIZATION = "Optimization"
LONG_TEXTS = "Long texts"
RUN = "Checkpoints and recipe"
ACCESS = "Access"
LIMITS = "Limits"
HARDWARE = "Hardware"
OUTPUT = "Messages"
PANELS = (
    COMMON,
    TASK,
    DATA,
    VOCABULARY,
    NETWORK,
    OBJECTIVE,
    OPTIMIZATION,
    LONG_TEXTS,
    RUN,
    ACCESS,
    LIMITS,
    HARDWARE,
    OUTPUT,
)


@dataclass(frozen=True)
class Setting:
    """Metadata of a configuration field in addition to its name, type and default.

    Attributes:
        help: What it does, one sentence.
        unit: Unit of the number, shown with the default.
        flag: Long option; derived from the field's name if empty.
        short: Short option, as in "-o".
        metavar: Shown instead of the type.
        panel: Group of --help.
        default_help: Default in words, where the field's own default (None or empty) means something else.
        by_task: Default per task if the field's is None; "" applies to all other tasks.
        tasks: The only tasks with this setting; empty for all.
        is_argument: Whether it is a positional argument.
        separator: Between the values of one option; empty if the option is repeated.
        old_flag: Another or a previous name of the option, accepted but hidden.
        minimum: Least value that the command line accepts, None for any.
        maximum: Greatest value that the command line accepts, None for any.
        envvar: Environment variable that gives the value where the command line does not.
        reads: What the value names: "rows" (a labeled file or folder), "text" (files, folders or patterns of a corpus),
            "model" (also a tokenizer); empty for what is not read. See `train.inputs`.
    """

    help: str
    unit: str = ""
    flag: str = ""
    short: str = ""
    metavar: str = ""
    panel: str = COMMON
    default_help: str = ""
    by_task: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    is_argument: bool = False
    separator: str = ""
    old_flag: str = ""
    minimum: float | None = None
    maximum: float | None = None
    envvar: str = ""
    reads: str = ""

    def is_for(self, task: str | None) -> bool:
        """Whether a task has this setting; None stands for any task."""
        return task is None or not self.tasks or task in self.tasks

    def default_of(self, task: str | None) -> Any:
        """Returns the default for a task, None if `by_task` has none."""
        return self.by_task.get(task or "", self.by_task.get(""))


def option(default: Any = MISSING, about: str | Setting = "", /, **details: Any) -> Any:
    """Declares a dataclass field that is a setting.

    Args:
        default: Omit it for a required setting. A dict is copied for each configuration.
        about: Help text, or a Setting shared by several configurations.
        details: Fields of Setting to change or add.
    """
    shared = about or details.pop("help")
    setting = dataclasses.replace(shared, **details) if isinstance(shared, Setting) else Setting(shared, **details)
    metadata = {"setting": setting}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def redeclare(one: dataclasses.Field[Any], **details: Any) -> Any:
    """Declares a setting again, with other details of its Setting."""
    return option(default_of(one), one.metadata["setting"], **details)


def settings_of(cls: type) -> dict[str, Setting]:
    """Returns the settings of a configuration class by field name, in field order."""
    return {one.name: one.metadata["setting"] for one in dataclasses.fields(cls) if "setting" in one.metadata}


def flag_of(name: str, setting: Setting) -> str:
    """Returns the long option of a setting, such as --batch-size."""
    return setting.flag or "--" + name.replace("_", "-")


def typed_name(name: str, setting: Setting) -> str:
    """Returns the name of a setting as typed on the command line, for messages: -o/--output, or CORPUS."""
    if setting.is_argument:
        return name.upper()
    return "/".join(filter(None, (setting.short, flag_of(name, setting))))


def default_text(setting: Setting, default: Any, task: str | None = None) -> str:
    """Returns the default of a setting in words, "" for a required one."""
    if setting.default_help:
        return setting.default_help
    if setting.by_task:
        texts = {of: _with_unit(value, setting.unit) for of, value in setting.by_task.items() if setting.is_for(of)}
        if task is not None:
            return texts.get(task, texts.get("", "none"))
        named = [f"{text} for {of}" for of, text in texts.items() if of]
        return "; ".join([*([texts[""]] if "" in texts else []), *named])
    return "" if default is MISSING else _with_unit(default, setting.unit)


def fill_defaults(config: Any, task: str) -> None:
    """Sets the fields of a frozen configuration that are None to the defaults of its task."""
    for name, setting in settings_of(type(config)).items():
        if getattr(config, name) is None and setting.is_for(task):
            object.__setattr__(config, name, setting.default_of(task))


def misplaced(config: Any, task: str) -> tuple[str, Setting] | None:
    """Returns the first setting that is set but does not apply to this task, None if there is none."""
    for one in dataclasses.fields(config):
        setting = one.metadata["setting"]
        if not setting.is_for(task) and getattr(config, one.name) not in (None, default_of(one)):
            return one.name, setting
    return None


def default_of(one: dataclasses.Field[Any]) -> Any:
    """Returns the default of a field, MISSING for a required one."""
    return one.default_factory() if one.default_factory is not MISSING else one.default


def kind_of(hint: Any) -> Any:
    """Returns the type of a setting without None: int for `int | None`."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return next(kind for kind in typing.get_args(hint) if kind is not type(None))
    return hint


def length_of(kind: Any) -> int | None:
    """Returns the number of values of a fixed-length tuple type, None for any other type."""
    items = typing.get_args(kind) if typing.get_origin(kind) is tuple else ()
    return None if not items or Ellipsis in items else len(items)


def suggested_command(command: str, **values: Any) -> str:
    """Returns a command to run next, for reports and model cards.

    Args:
        command: Its name, of the kind "command" in the registry.
        values: Its settings; those of the default values are omitted.
    """
    return command_line(registry.resolve("command", command), values)


def command_line(cls: type, recipe: Mapping[str, Any]) -> str:
    """Returns the shell command that runs a recipe; see `command_words`."""
    return shlex.join(command_words(cls, recipe))


def command_words(cls: type[Any], recipe: Mapping[str, Any]) -> list[str]:
    """Returns the command that runs a recipe, as words. Parsing them gives the same settings.

    Args:
        cls: Configuration class; its COMMAND is the name of the command.
        recipe: Its values, as returned by `to_dict`. Omitted are settings at their defaults, and those without a value
            here whose default depends on other settings or on the number of processes.
    """
    config: Any = from_dict(cls, recipe)
    hints = typing.get_type_hints(cls)
    task = getattr(config, "task", None)
    dependent = getattr(config, "dependent_defaults", {})
    words: list[str] = []
    first: list[str] = []
    last: list[str] = []  # repeated positional arguments, and those after them, come after the options
    for one in dataclasses.fields(cls):
        setting, value = one.metadata["setting"], getattr(config, one.name)
        usual = setting.default_of(task) if setting.by_task else default_of(one)
        usual = dependent.get(one.name, usual)
        if setting.is_argument and isinstance(value, tuple):
            last += map(str, value)
        elif setting.is_argument and value is not None:
            (last or first).append(str(value))
        elif value is not None and value != usual and (one.name in recipe or one.name not in dependent):
            words += _words(one.name, setting, value, kind_of(hints[one.name]))
    command = ["maskwright", *cls.COMMAND.split()]
    if any(word.startswith("-") and word != "-" for word in (*first, *last)):
        return [*command, *words, "--", *first, *last]
    return [*command, *first, *words, *last]


def parse_pairs(text: str, flag: str) -> dict[str, str]:
    """Parses `text=body,label=y`; double quotes enclose a pair with a comma. Raises ConfigError."""
    pairs = {}
    for part in next(csv.reader([text]), []):
        role, equals, name = part.partition("=")
        if part and not (role.strip() and equals and name.strip()):
            raise ConfigError(f"{flag} has '{part}'; it takes ROLE=NAME pairs, as in text=body,label=y.")
        if part:
            pairs[role.strip()] = name.strip()
    return pairs


def _words(name: str, setting: Setting, value: Any, kind: Any) -> Iterator[str]:
    """Yields an option with its value or values."""
    flag = flag_of(name, setting)
    if isinstance(value, bool):
        yield flag if value else "--no-" + flag.removeprefix("--")
    elif isinstance(value, dict):
        if typing.get_args(kind)[1:] == (str,):
            if value:
                line = io.StringIO()
                csv.writer(line, lineterminator="").writerow([f"{key}={item}" for key, item in value.items()])
                yield from _named(flag, line.getvalue())
            return
        for key, item in value.items():
            yield from (flag, f"{key}={_toml(item)}")
    elif isinstance(value, tuple) and length_of(kind):
        yield from (flag, *map(_text, value))
    elif isinstance(value, tuple):
        for item in [setting.separator.join(map(_text, value))] if setting.separator else map(_text, value):
            yield from _named(flag, item)
    else:
        yield from _named(flag, _text(value))


def _named(flag: str, value: str) -> tuple[str, ...]:
    """Returns --flag VALUE, or --flag=VALUE if the value could be parsed as an option."""
    return (f"{flag}={value}",) if value.startswith("-") else (flag, value)


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _toml(value: Any) -> str:
    """Formats a value as TOML; plain words stay unquoted because they parse as themselves."""
    import tomli_w

    is_word = isinstance(value, str) and value.isidentifier() and value not in ("true", "false", "inf", "nan")
    if is_word:
        return str(value)
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def _with_unit(value: Any, unit: str) -> str:
    """Formats a default in words: 2000 steps, on, none."""
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    text = f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
    return f"{text} {unit}".rstrip()
