"""All lessons by name, in teaching order: the modules of topics/, each with LESSONS and the name of their PART."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module

from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .lesson import Lesson

TOPICS = (
    "words", "positions", "attention", "encoder", "masking", "pairs", "sizes",
    "classifying", "tagging", "layers", "generation", "sparse", "recurrent",
)  # fmt: skip


@cache
def lessons() -> dict[str, Lesson]:
    """Return name -> lesson, in order."""
    modules = [import_module(f"{__package__}.topics.{topic}") for topic in TOPICS]
    return {one.name: replace(one, part=module.PART) for module in modules for one in module.LESSONS}


def lesson(name: str) -> Lesson:
    """Return a lesson. Raises ConfigError with the nearest name for an unknown one."""
    if name not in lessons():
        raise ConfigError(unknown_name("lesson", name, lessons()))
    return lessons()[name]
