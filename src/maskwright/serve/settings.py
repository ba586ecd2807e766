"""Settings of `maskwright serve`, from the command line, serve.toml, or Python."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..core.config import (
    ACCESS,
    HARDWARE,
    LIMITS,
    check,
    check_above_zero,
    check_at_least,
    fit_types,
    from_dict,
    option,
    read_toml,
    to_dict,
)
from ..core.errors import ConfigError
from ..core.registry import unknown_name
from ..core.util import DEVICE, EXECUTOR, PRECISION, THREADS, UNTRAINED, Device, Executor
from ..hub.published import ENGLISH, short_names

TABLE, MODEL_TABLE = "serve", "model"
OF_MODEL = ("name", "folder", "max_length")  # keys of [[serve.model]]


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Settings of the server. Raises ConfigError for values that do not go together.

    Attributes:
        models: Model folders, named by the ends of their paths.
        model: Further models as NAME=FOLDER.
        max_length: Maximum tokens of a text by model name; the model's own where there is none.
    """

    COMMAND: ClassVar[str] = "serve"

    models: tuple[str, ...] = option(
        (),
        "Model folders, or Hugging Face Hub model IDs.",
        is_argument=True,
        metavar="MODEL",
        default_help=f"{ENGLISH}, which is built in",
    )
    model: tuple[str, ...] = option((), "Model under its own name, NAME=FOLDER. Repeatable.", metavar="NAME=FOLDER")
    max_length: dict[str, int] = option(
        {},
        "Maximum tokens of a text for a model, NAME=TOKENS. Repeatable.",
        metavar="NAME=TOKENS",
        default_help="the model's",
    )
    host: str = option("127.0.0.1", "Address to listen on; other than loopback needs a key or --insecure.")
    port: int = option(8080, "Port to listen on; 0 picks a free one.", minimum=0, maximum=65535)
    uds: Path | None = option(None, "Unix socket to listen on instead of host and port, for its owner only.")

    api_key: str | None = option(
        None,
        "Key that requests must carry. Prefer the variable or a file: other users can read a command line.",
        envvar="MASKWRIGHT_API_KEY",
        panel=ACCESS,
    )
    api_key_file: Path | None = option(
        None, "File of keys, one name:key a line, read again on SIGHUP.", panel=ACCESS, metavar="FILE"
    )
    insecure: bool = option(False, "Listen beyond loopback without a key.", panel=ACCESS)
    allowed_host: tuple[str, ...] = option(
        (), "Host header to accept. Repeatable.", panel=ACCESS, default_help="loopback names; with a key any"
    )
    cors_origin: tuple[str, ...] = option(
        (), "Origin whose pages may use the server. Repeatable.", panel=ACCESS, metavar="ORIGIN"
    )
    tls_cert: Path | None = option(None, "Certificate file (PEM); turns on HTTPS.", panel=ACCESS, metavar="FILE")
    tls_key: Path | None = option(None, "Private key file (PEM) of the certificate.", panel=ACCESS, metavar="FILE")

    timeout: float = option(30.0, "Deadline of a request that sets none.", unit="seconds", panel=LIMITS)
    grace: float = option(30.0, "Time to finish admitted requests after SIGTERM.", unit="seconds", panel=LIMITS)
    max_body_bytes: int = option(2_000_000, "Largest request body.", unit="bytes", panel=LIMITS)
    max_texts: int = option(1024, "Most texts in a request.", unit="texts", panel=LIMITS)
    max_queued_requests: int = option(512, "Most requests that wait for the model.", unit="requests", panel=LIMITS)
    max_queue_seconds: float = option(5.0, "Most work that waits, at the measured speed.", unit="seconds", panel=LIMITS)
    max_new_tokens: int = option(
        1024, "Most tokens that a request may generate for one result.", unit="tokens", panel=LIMITS
    )
    max_connections: int = option(1000, "Most open connections; idle ones are closed first.", panel=LIMITS)
    batch_tokens: int | None = option(
        None, "Maximum tokens in a pack.", panel=LIMITS, default_help="measured at the start"
    )
    access_log: bool = option(True, "Write a JSON line for each request to standard error, without its text.")

    device: Device = option("auto", DEVICE)
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = option(
        "auto", PRECISION, help=f"{PRECISION.help.removesuffix('.')}; int8 is calibrated on texts."
    )
    calibrate_on: Path | None = option(None, "File of calibration texts for --precision int8.", panel=HARDWARE)
    threads: int | None = option(None, THREADS)
    executor: Executor = option("own", EXECUTOR)
    untrained: bool = option(False, UNTRAINED)

    def __post_init__(self) -> None:
        fit_types(self)
        check_above_zero(self, "timeout", "max_queue_seconds")
        check_at_least(self, 0, "grace")
        check_at_least(
            self,
            1,
            "max_body_bytes",
            "max_texts",
            "max_queued_requests",
            "max_new_tokens",
            "max_connections",
            "batch_tokens",
            "threads",
        )
        check(0 <= self.port <= 65535, f"Setting 'port' is {self.port}; it must be 0 to 65535.")
        check(
            (self.tls_cert is None) == (self.tls_key is None),
            "HTTPS needs both a certificate and its key: pass --tls-cert and --tls-key.",
        )
        check(
            (self.precision == "int8") == (self.calibrate_on is not None),
            "Precision int8 needs calibration texts, and only int8 does: pass --calibrate-on with --precision int8.",
        )
        check(self.api_key is None or bool(self.api_key.strip()), "The API key is empty: set one, or remove it.")
        check(
            self.is_private or self.has_keys or self.insecure,
            f"The server would answer anyone who reaches {self.host}: set a key (MASKWRIGHT_API_KEY or "
            "--api-key-file), or --insecure if the network is trusted.",
        )
        names = [name for name, _ in self.named_models]
        unknown = [name for name in self.max_length if name not in names]
        check(not unknown, unknown_name("model of max_length", ", ".join(unknown), names))
        for name, length in self.max_length.items():
            is_length = isinstance(length, int) and not isinstance(length, bool) and length >= 3
            check(is_length, f"The max_length of {name} is {length!r}; it must be a number of tokens, 3 or more.")

    @property
    def named_models(self) -> list[tuple[str, str]]:
        """Name and folder of each model; the built-in one if none is named. Raises ConfigError for equal names."""
        given = [_named(entry) for entry in self.model]
        folders = self.models or (() if given else (ENGLISH,))
        found = [*zip(short_names(folders), folders, strict=True), *given]
        for index, (name, _) in enumerate(found):
            check(
                name not in [other for other, _ in found[:index]],
                f"Two models have the name '{name}': name them with --model NAME=FOLDER.",
            )
        return found

    @property
    def has_keys(self) -> bool:
        return self.api_key is not None or self.api_key_file is not None

    @property
    def is_private(self) -> bool:
        return self.uds is not None or is_loopback(self.host)

    def to_recipe(self) -> dict[str, Any]:
        """Returns the content of serve.toml with these settings, without the key."""
        values = to_dict(self)
        values.pop("api_key", None)
        lengths = values.pop("max_length")
        entries = [{"name": name, "folder": folder} for name, folder in map(_named, values.pop("model"))]
        for entry in entries:
            if entry["name"] in lengths:
                entry["max_length"] = lengths.pop(entry["name"])
        values |= {"max_length": lengths} if lengths else {}
        return {TABLE: values | ({MODEL_TABLE: entries} if entries else {})}


def read_settings(path: Path | None, given: Mapping[str, Any]) -> ServeSettings:
    """Returns the settings of a serve.toml, and those given otherwise, which win.

    Raises ConfigError for a wrong file or value.
    """
    values = {} if path is None else _in_file(path)
    for name, value in given.items():
        is_table = isinstance(value, Mapping) and isinstance(values.get(name), Mapping)
        values[name] = {**values[name], **value} if is_table else value
    return from_dict(ServeSettings, values, where=str(path) if path else "the settings")


def is_loopback(host: str) -> bool:
    """Whether an address reaches only this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_file(path: Path) -> dict[str, Any]:
    """Returns the settings of the table [serve], with its [[serve.model]] entries as NAME=FOLDER."""
    content = read_toml(path)
    others = [name for name in content if name != TABLE]
    if others or not isinstance(content.get(TABLE, {}), dict):
        raise ConfigError(f"{path} has {', '.join(others) or 'no table'}: its settings belong into the table [serve].")
    values = dict(content.get(TABLE, {}))
    entries = values.pop(MODEL_TABLE, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{path}: models are written as [[serve.model]] with name and folder.")
    lengths = dict(values.pop("max_length", {}))
    named = []
    for entry in entries:
        unknown = [key for key in entry if key not in OF_MODEL]
        if unknown:
            raise ConfigError(unknown_name("key of [[serve.model]]", unknown[0], OF_MODEL, str(path)))
        if not all(isinstance(entry.get(key), str) and entry[key] for key in OF_MODEL[:2]):
            raise ConfigError(f"{path}: each [[serve.model]] needs a name and a folder.")
        named.append(f"{entry['name']}={entry['folder']}")
        if "max_length" in entry:
            lengths[entry["name"]] = entry["max_length"]
    return values | ({"model": named} if named else {}) | ({"max_length": lengths} if lengths else {})


def _named(entry: str) -> tuple[str, str]:
    """Splits NAME=FOLDER. Raises ConfigError for anything else."""
    name, equals, folder = entry.partition("=")
    name, folder = name.strip(), folder.strip()
    check(bool(equals and name and folder), f"--model takes NAME=FOLDER, as in ner=runs/ner/model; got '{entry}'.")
    allowed = all(character.isalnum() or character in "._-/" for character in name)
    check(allowed, f"The model name '{name}' may have letters, digits and . _ - / only: it is part of addresses.")
    return name, folder
