"""All lessons by name, in teaching order: the modules of topics/, each with a tuple LESSONS."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .lesson import Lesson

TOPICS = (
    "words",
    "merges",
    "subword_tokens",
    "positions",
    "inputs",
    "plain_attention",
    "scaling",
    "toy_scores",
    "attention_changes",
    "encoder",
    "kinds_of_attention",
    "decoder",
    "masking",
    "mask_rate",
    "masked_prediction",
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
    "bleu",
    "smaller",
    "sparse",
    "recurrent",
)


@cache
def lessons() -> dict[str, Lesson]:
    """Return name -> lesson, in order."""
    found = [one for topic in TOPICS for one in import_module(f"{__package__}.topics.{topic}").LESSONS]
    return {one.name: one for one in found}


def lesson(name: str) -> Lesson:
    """Return a lesson. Raises ConfigError with the nearest name for an unknown one."""
    if name not in lessons():
        raise ConfigError(unknown_name("lesson", name, lessons()))
    return lessons()[name]
