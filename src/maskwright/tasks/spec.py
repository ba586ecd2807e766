"""What is known of a task before it is imported: its settings, their defaults, the files that it reads.

A task package declares it as `SPEC` in its module `spec`. These modules import no torch, because `--help` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, get_type_hints

from ..core import registry
from ..core.config import default_of, option, redeclare
from ..core.errors import ConfigError

Config = TypeVar("Config")


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: what it is and what it can do, by its head.

    Attributes:
        head: name of the head in the registry, None without one.
        description: what messages call it, with its article.
        commands: commands that support it, for messages.
        abilities: what it can do, as in "classify", "tag" or "generate"; routes, pages and functions ask for these.
        title: name in model lists, "" for the head.
    """

    head: str | None
    description: str
    commands: str
    abilities: frozenset[str] = frozenset()
    title: str = ""

    @property
    def name(self) -> str | None:
        """Its name, which differs from that of every other kind."""
        return self.title or self.head

    def can(self, *abilities: str) -> bool:
        """Whether it has one of the abilities."""
        return not self.abilities.isdisjoint(abilities)


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The settings of a task without any."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Facts about a task.

    Attributes:
        title: name of the task in forms, "" for its name in the registry.
        networks: kinds of models that it is trained from: encoder, causal, encoder-decoder.
        settings: dataclass of `core.options.option` fields, which checks them and is passed to `Task.from_rows`.
        read_settings: those of them that are passed to `Task.read`.
        run_settings: fields of FinetuneConfig that only some tasks have, and this one has.
        defaults: its defaults of settings of FinetuneConfig that are None there.
        reads: names of the readers (`core.registry`, kind "reader") of the files that it is trained on.
        has_classes: whether labels are a few classes.
        has_numbers: whether labels are numbers.
        long_texts: how it reads long texts, if it has no settings for them, as in "truncates long texts".
        freezes_encoder: whether only the head is trained.
        has_head: whether the model has a head.
        follows: pre-training objectives whose models are usually fine-tuned for this task.
        kinds: kinds of models that it makes.
        contrastive: task that `--contrastive` trains instead, "" if there is none.
    """

    title: str = ""
    networks: tuple[str, ...] = ("encoder", "causal")
    settings: type = NoSettings
    read_settings: tuple[str, ...] = ()
    run_settings: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ("texts",)
    has_classes: bool = False
    has_numbers: bool = False
    long_texts: str = ""
    freezes_encoder: bool = False
    has_head: bool = True
    follows: tuple[str, ...] = ()
    kinds: tuple[ModelKind, ...] = ()
    contrastive: str = ""

    def settings_in(self, config: Any) -> Any:
        """Returns the task's settings of a fine-tuning recipe. Raises ConfigError for invalid values."""
        return self.settings(**{one.name: getattr(config, one.name) for one in fields(self.settings)})


def spec_of(task: str) -> TaskSpec:
    """Returns the facts about a task; for one without a module `spec`, and an unknown one, the defaults."""
    package = registry.module_of("task", task).rpartition(".")[0]
    if not package or find_spec(f"{package}.spec") is None:
        return TaskSpec()
    spec: TaskSpec = import_module(f"{package}.spec").SPEC
    return spec


def task_for(reader: str, has_numbers: bool = False) -> str:
    """Returns the first registered task that reads such files."""
    return next(
        name
        for name in registry.names("task")
        if reader in spec_of(name).reads and spec_of(name).has_numbers == has_numbers
    )


def task_after(objective: str) -> str:
    """Returns the task for which models of a pre-training objective are usually fine-tuned."""
    tasks = registry.names("task")
    return next((name for name in tasks if objective in spec_of(name).follows), tasks[0])


def with_task_settings(cls: type[Config]) -> type[Config]:
    """Adds the settings of all tasks to a configuration class; a decorator, applied before `dataclass`.

    Raises ConfigError for a task that declares a setting of the class itself, or one of another task with another type.
    """
    tasks: dict[str, list[str]] = {}
    defaults: dict[str, dict[str, Any]] = {}
    for task in registry.names("task"):
        spec = spec_of(task)
        for name, value in spec.defaults.items():
            defaults.setdefault(name, {})[task] = value
        for name in spec.run_settings:
            tasks.setdefault(name, []).append(task)
        hints = get_type_hints(spec.settings)
        for one in fields(spec.settings):
            if cls.__annotations__.setdefault(one.name, hints[one.name]) != hints[one.name]:
                raise ConfigError(f"The task '{task}' declares the setting '{one.name}', which exists: rename it.")
            if one.name not in vars(cls):
                setattr(cls, one.name, option(default_of(one), one.metadata["setting"]))
            tasks.setdefault(one.name, []).append(task)
    for name in {**tasks, **defaults}:
        setting = vars(cls)[name].metadata["setting"]
        by_task = {**setting.by_task, **defaults.get(name, {})}
        setattr(cls, name, redeclare(vars(cls)[name], tasks=tuple(tasks.get(name, ())), by_task=by_task))
    return cls
