"""Configuration: frozen dataclasses, filled from a TOML file and then from overrides; unknown keys are errors.

A config class validates its values in `__post_init__`, types first (`fit_types`). Every instance is therefore valid,
whether it comes from a file, the command line or Python code.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from .errors import ConfigError
from .registry import unknown_name
from .storage import read_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
    """Parses `name=value` texts into a dict; a value that is not valid TOML is kept as a string.

    Raises ConfigError for a text without a name or without "=".
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        check(bool(sign and name.strip()), f"'{text}' sets nothing: write it as name=value, like positions=rotary.")
        try:
            found[name.strip().replace("-", "_")] = _parse_toml(f"value = {value}")["value"]
        except ValueError:
            found[name.strip().replace("-", "_")] = value.strip()
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
        field.name
        for field in dataclasses.fields(cls)
        if field.init
        and field.name not in ready
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
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
    for field in dataclasses.fields(config):
        object.__setattr__(config, field.name, _fit(field.name, getattr(config, field.name), hints[field.name]))


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


def check_above_zero(config: Any, *names: str) -> None:
    """Raises ConfigError unless each of these settings is None or above 0."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value > 0, f"Setting '{name}' is {value}; it must be above 0.")


def check_not_negative(config: Any, *names: str) -> None:
    """Raises ConfigError unless each of these settings is None or at least 0."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value >= 0, f"Setting '{name}' is {value}; it must not be negative.")


def check_below_one(config: Any, *names: str) -> None:
    """Raises ConfigError unless each of these settings is None or in [0, 1)."""
    for name in names:
        value = getattr(config, name)
        check(value is None or 0 <= value < 1, f"Setting '{name}' is {value}; it must be in [0, 1).")


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
