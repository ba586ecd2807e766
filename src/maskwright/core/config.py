"""Configuration: frozen dataclasses, filled from a TOML file and then from overrides; unknown keys are errors.

A config class checks its own values in `__post_init__`, first their types with `fit_types`, so one that exists is
valid, whoever made it: a file, the command line or a caller in Python.
"""

from __future__ import annotations

import dataclasses
import difflib
import numbers
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union

from .errors import ConfigError
from .storage import read_bytes

Config = TypeVar("Config")
_MISFIT = object()
_CONVERTED: dict[Any, tuple[type, ...]] = {  # type of a setting -> what may be given for it
    str: (str, Path),
    Path: (str, Path),
    float: (numbers.Real,),
    int: (numbers.Integral,),
}


def load(cls: type[Config], path: Path | str | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Build `cls` from a TOML file (optional), then from `overrides` (None values are skipped).

    An override that is a table changes the keys that it has and leaves the file's others.
    """
    values = read_toml(path) if path is not None else {}
    for key, value in (overrides or {}).items():
        if isinstance(value, Mapping) and isinstance(values.get(key), Mapping):
            values[key] = {**values[key], **value}
        elif value is not None:
            values[key] = value
    return from_dict(cls, values, where=str(path) if path else "the settings")


def read_toml(path: Path | str) -> dict[str, Any]:
    """A TOML file as a dict. Raises ConfigError with the line when it does not parse."""
    try:
        return tomllib.loads(read_bytes(path, limit_bytes=1 << 20).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`name=value` texts as a dict; a value is read as TOML, and taken as it stands where it is none.

    Raises ConfigError for a text without a name or without "=".
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        check(bool(sign and name.strip()), f"'{text}' sets nothing: write it as name=value, like positions=rotary.")
        try:
            found[name.strip().replace("-", "_")] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip().replace("-", "_")] = value.strip()
    return found


def from_dict(cls: type[Config], values: Mapping[str, Any], where: str = "the settings") -> Config:
    """Build the dataclass `cls`; an unknown key or a value of the wrong type is a ConfigError."""
    fields = {field.name for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    ready = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"Unknown setting '{key}' in {where}.{hint} Known: {', '.join(sorted(fields))}.")
        ready[name] = _fit(name, value, hints[name])
    missing = [
        field.name
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.init
        and field.name not in ready
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"Missing in {where}: {', '.join(missing)}.")
    return cls(**ready)


def to_dict(config: Any) -> dict[str, Any]:
    """The dataclass as plain values (paths as text), without the settings that are None."""
    return {key: value for key, value in _plain(dataclasses.asdict(config)).items() if value is not None}


def to_toml(config: Any) -> str:
    """The dataclass as TOML."""
    import tomli_w

    return tomli_w.dumps(to_dict(config))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The settings that differ, each as 'name (was X, now Y)'."""
    return [
        f"{key} (was {old.get(key)!r}, now {new.get(key)!r})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def fit_types(config: Any) -> None:
    """Bring every field of a frozen dataclass to the type it declares; for the head of `__post_init__`.

    A path may be given as text, a list of texts as one text. Raises ConfigError for a setting that does not fit.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        object.__setattr__(config, field.name, _fit(field.name, getattr(config, field.name), hints[field.name]))


def check(condition: bool, message: str) -> None:
    """Raise ConfigError(message) unless `condition` holds; for `__post_init__`."""
    if not condition:
        raise ConfigError(message)


def check_at_least(config: Any, least: float, *names: str) -> None:
    """Raise ConfigError unless these settings, where they are given, are `least` or more."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value >= least, f"Setting '{name}' is {value}; it must be at least {least}.")


def check_above_zero(config: Any, *names: str) -> None:
    """Raise ConfigError unless these settings, where they are given, are above 0."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value > 0, f"Setting '{name}' is {value}; it must be above 0.")


def check_not_negative(config: Any, *names: str) -> None:
    """Raise ConfigError unless these settings, where they are given, are 0 or more."""
    for name in names:
        value = getattr(config, name)
        check(value is None or value >= 0, f"Setting '{name}' is {value}; it must not be negative.")


def check_below_one(config: Any, *names: str) -> None:
    """Raise ConfigError unless these settings, where they are given, are 0 or more and below 1."""
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
    """Bring `value` to the type that `hint` names, or raise ConfigError."""
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
    """`value` as one of the types of a setting, or _MISFIT."""
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
