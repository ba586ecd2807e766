"""All lessons by name, in the order in which they are taught: the modules of topics/, each with a tuple LESSONS."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .lesson import Lesson

TOPICS = (
    "words",
    "merges",
    "pieces",
    "positions",
    "inputs",
    "plain_attention",
    "scaling",
    "toy_scores",
    "moving_heads",
    "encoder",
    "kinds_of_attention",
    "decoder",
    "masking",
    "mask_rate",
    "guessing",
    "pairs",
    "families",
    "sizes",
    "training_cost",
    "layer_cost",
    "classifying",
    "entailing",
    "tagging",
    "answering",
    "published",
    "rare",
    "layers",
    "searching",
    "generation",
    "writing",
    "judging",
    "smaller",
    "sparse",
    "recurrent",
)


@cache
def lessons() -> dict[str, Lesson]:
    """Name -> lesson, in order."""
    found = [one for topic in TOPICS for one in import_module(f"{__package__}.topics.{topic}").LESSONS]
    return {one.name: one for one in found}


def lesson(name: str) -> Lesson:
    """One lesson. Raises ConfigError naming the nearest name."""
    if name not in lessons():
        raise ConfigError(unknown_name("lesson", name, lessons()))
    return lessons()[name]
