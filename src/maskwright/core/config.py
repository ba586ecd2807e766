"""Settings: metadata of configuration fields, command line, TOML file and overrides."""

from __future__ import annotations

import csv
import dataclasses
import io
import numbers
import re
import shlex
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import registry
from .errors import ConfigError
from .registry import unknown_name
from .storage import read_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# -- Configuration: frozen dataclasses, filled from a TOML file and then from overrides; unknown keys are errors -----
#
# A config class validates its values in `__post_init__`, types first (`fit_types`). Every instance is therefore valid,
# whether it comes from a file, the command line or Python code.


Config = TypeVar("Config", bound="DataclassInstance")
MAX_TOML_LEVELS = 16  # nested tables and lists in a TOML file; our own files have three
_LONG_KEY = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){32,}""", re.ASCII)
_MISFIT = object()
_CONVERTED: dict[Any, tuple[type, ...]] = {  # declared type of a setting -> accepted types
    str: (str, Path),
    Path: (str, Path),
    float: (numbers.Real,),
    int: (numbers.Integral,),
}


def load(cls: type[Config], path: Path | str | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Builds `cls` from a TOML file (optional), then from `overrides` (None values are skipped).

    An override that is a table replaces only its own keys in the file's table.
    """
    values = read_toml(path) if path is not None else {}
    for key, value in (overrides or {}).items():
        if isinstance(value, Mapping) and isinstance(values.get(key), Mapping):
            values[key] = {**values[key], **value}
        elif value is not None:
            values[key] = value
    return from_dict(cls, values, where=str(path) if path else "the settings")


def read_toml(path: Path | str) -> dict[str, Any]:
    """Reads a TOML file. Raises ConfigError with the line if it does not parse, or if it is nested too deeply."""
    try:
        return _parse_toml(read_bytes(path, limit_bytes=1 << 20).decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {str(error).rstrip('.')}.") from None


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Parses `name=value` texts into a dict; a value that is not TOML, nor with brackets around, is kept as a string.

    Raises ConfigError for a text without a name or without "=".
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        check(bool(sign and name.strip()), f"'{text}' sets nothing: write it as name=value, like positions=rotary.")
        key = name.strip().replace("-", "_")
        found[key] = value.strip()
        for form in (value, f"[{value}]") if "," in value else (value,):
            with suppress(ValueError):
                found[key] = _parse_toml(f"value = {form}")["value"]
                break
    return found


def _parse_toml(text: str) -> dict[str, Any]:
    """Parses TOML. Raises ValueError if it does not parse, or is nested more than MAX_TOML_LEVELS deep.

    Python's parser needs memory quadratic in the parts of a dotted key, and a stack frame or more per bracket.
    """
    too_deep = f"it is nested more than {MAX_TOML_LEVELS} levels deep"
    if _LONG_KEY.search(text):
        raise ValueError(too_deep)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level: list[Any] = [values]
    for _ in range(MAX_TOML_LEVELS):
        level = [
            inner
            for value in level
            if isinstance(value, (dict, list))
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise ValueError(too_deep)
    return values


def from_dict(cls: type[Config], values: Mapping[str, Any], where: str = "the settings") -> Config:
    """Builds the dataclass `cls`; an unknown key or a value of the wrong type is a ConfigError."""
    fields = {field.name for field in dataclasses.fields(cls) if field.init}
    hints = typing.get_type_hints(cls)
    ready = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise ConfigError(unknown_name("setting", key, sorted(fields), where))
        ready[name] = _fit(name, value, hints[name])
    missing = [
        one.name for one in dataclasses.fields(cls) if one.init and one.name not in ready and default_of(one) is MISSING
    ]
    if missing:
        raise ConfigError(f"Missing in {where}: {', '.join(missing)}.")
    return cls(**ready)


def to_dict(config: Any) -> dict[str, Any]:
    """Converts a dataclass to plain values (paths to strings), without the settings that are None."""
    return {key: value for key, value in _plain(dataclasses.asdict(config)).items() if value is not None}


def to_toml(config: Any) -> str:
    """Serializes a dataclass as TOML."""
    return as_toml(to_dict(config))


def as_toml(values: Mapping[str, Any]) -> str:
    """Serializes plain values as TOML."""
    import tomli_w

    return tomli_w.dumps(values)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lists the settings that differ, each as 'name (was X, now Y)'."""
    return [
        f"{key} (was {old.get(key)!r}, now {new.get(key)!r})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def fit_types(config: Any) -> None:
    """Converts every field of a frozen dataclass to its declared type; call it first in `__post_init__`.

    A path may be a string, and a list of strings a single string. Raises ConfigError for a value of the wrong type.
    """
    hints = typing.get_type_hints(type(config))
    for one in dataclasses.fields(config):
        object.__setattr__(config, one.name, _fit(one.name, getattr(config, one.name), hints[one.name]))


def check(condition: bool, message: str) -> None:
    """Raises ConfigError(message) unless `condition` is true; for `__post_init__`."""
    if not condition:
        raise ConfigError(message)


def check_name(setting: str, kind: str, name: str, known: Iterable[str]) -> None:
    """Raises ConfigError with the closest known name unless `name` is known."""
    known = list(known)
    check(name in known, f"Setting '{setting}': {unknown_name(kind, name, known)}")


def check_at_least(config: Any, least: float, *names: str) -> None:
    """Raises ConfigError unless each of these settings is None or at least `least`."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value >= least, f"Setting '{name}' is {value}; it must be at least {least}.")


def _checker(is_valid: Callable[[float], bool], what: str) -> Callable[..., None]:
    """A function check(config, *names) that raises ConfigError unless each of these settings is None or valid."""

    def check_each(config: Any, *names: str) -> None:
        for name in names:
            value = getattr(config, name)
            check(value is None or is_valid(value), f"Setting '{name}' is {value}; it must {what}.")

    return check_each


check_above_zero = _checker(lambda value: value > 0, "be above 0")
check_not_negative = _checker(lambda value: value >= 0, "not be negative")
check_below_one = _checker(lambda value: 0 <= value < 1, "be in [0, 1)")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _fit(name: str, value: Any, hint: Any) -> Any:
    """Converts `value` to the type `hint`, or raises ConfigError."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        fitted = _fit_one(name, value, option)
        if fitted is not _MISFIT:
            return fitted
    allowed = [option for option in options if option is not type(None)]
    names = " or ".join(
        " | ".join(map(repr, typing.get_args(option)))
        if typing.get_origin(option) is typing.Literal
        else getattr(option, "__name__", str(option))
        for option in allowed
    )
    raise ConfigError(f"Setting '{name}' is {value!r}; it must be {names}.")


def _fit_one(name: str, value: Any, option: Any) -> Any:
    """Converts `value` to one type of a setting; _MISFIT if it does not fit."""
    origin = typing.get_origin(option) or option
    if origin is Any or (value is None and option is type(None)):
        return value
    if origin is typing.Literal:
        return value if value in typing.get_args(option) else _MISFIT
    if origin in (tuple, list) and isinstance(value, (str, Path, list, tuple)):
        items = [value] if isinstance(value, (str, Path)) else value
        kind = next(iter(typing.get_args(option)), Any)
        return origin(_fit(name, item, kind) for item in items)
    if isinstance(value, bool):
        return value if origin is bool else _MISFIT
    if origin in _CONVERTED:
        return origin(value) if isinstance(value, _CONVERTED[origin]) else _MISFIT
    return value if isinstance(origin, type) and isinstance(value, origin) else _MISFIT


# -- Settings: metadata of configuration fields, and the command line that sets them ---------------------------------
#
# A setting is one dataclass field made by `option`. Name, type and default are those of the field; help, unit, option
# name and the rest are in its `Setting`. Command-line options, `--help` and the commands in reports are generated from
# these.


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
SET = "--set"  # the option that sets what has no option of its own
PANELS = (
    *(COMMON, TASK, DATA, VOCABULARY, NETWORK, OBJECTIVE, OPTIMIZATION),
    *(LONG_TEXTS, RUN, ACCESS, LIMITS, HARDWARE, OUTPUT),
)


@dataclass(frozen=True)
class Setting:
    """Metadata of a configuration field in addition to its name, type and default."""

    help: str  # what it does, one sentence
    unit: str = ""  # of the number, shown with the default
    flag: str = ""  # long option; derived from the field's name if empty
    short: str = ""  # short option, as in "-o"
    metavar: str = ""  # shown instead of the type
    panel: str = COMMON  # group of --help
    default_help: str = ""  # default in words, where None or empty means something else
    by_task: Mapping[str, Any] = field(default_factory=dict)  # default by task where the field is None; "" for others
    tasks: tuple[str, ...] = ()  # the only tasks with this setting; empty for all
    is_argument: bool = False  # a positional argument
    separator: str = ""  # between the values of one option; empty if the option is repeated
    old_flag: str = ""  # other or previous names of the option, with spaces between; accepted but hidden
    minimum: float | None = None  # least value that the command line accepts
    maximum: float | None = None
    envvar: str = ""  # environment variable that gives the value where the command line does not
    reads: str = ""  # "rows" (a labeled file), "text" (a corpus) or "model" (also a tokenizer); see `train.inputs`
    recipe_only: bool = False  # too rare for an option: `--set name=value` or a recipe sets it; a hidden option warns

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
    if setting.recipe_only:
        return f"{SET} {name}"
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
        elif value is None or value == usual or (one.name in dependent and one.name not in recipe):
            continue
        elif setting.recipe_only and not isinstance(value, (dict, tuple)):
            words += [SET, f"{one.name}={_toml(value)}"]
        else:
            words += _words(one.name, setting, value, kind_of(hints[one.name]))
    command = ["maskwright", *cls.COMMAND.split()]
    if any(word.startswith("-") and word != "-" for word in (*first, *last)):
        return [*command, *words, "--", *first, *last]
    return [*command, *first, *words, *last]


def parse_pairs(text: str, flag: str) -> dict[str, str]:
    """Parses `text=body,label=y`; double quotes enclose a pair with a comma. Raises ConfigError."""
    pairs = {}
    for part in filter(None, map(str.strip, next(csv.reader([text]), []))):
        role, equals, name = part.partition("=")
        if not (role.strip() and equals and name.strip()):
            raise ConfigError(f"{flag} has '{part}'; it takes ROLE=NAME pairs, as in text=body,label=y.")
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

    value = str(value) if isinstance(value, Path) else value
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
