"""Compares the score of a training with its trivial baseline, for every objective and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..report import Level
from ..tasks.base import TaskData

MARGIN = 0.01  # minimum difference from the baseline


@dataclass(frozen=True)
class Compared:
    """A held-out score compared with a trivial predictor on the same data; higher is better.

    metric: of both; predictor: description of the baseline; margin: minimum difference for "good".
    """

    metric: str
    score: float
    baseline: float
    predictor: str
    margin: float = MARGIN

    @classmethod
    def of_task(cls, data: TaskData, score: float) -> Compared:
        """The main metric of a fine-tuned model compared with the baseline of its task. score: on the dev examples."""
        simple = data.task.baseline(data)
        margin = 0.0 if simple.is_untrained else MARGIN
        return cls(data.task.main_metric, score, simple.score, simple.predictor, margin)

    @property
    def level(self) -> Level:
        """good; bad if the score is no better than the baseline; watch if both are perfect."""
        if self.score > self.baseline + self.margin:
            return "good"
        return "watch" if self.score >= 1.0 else "bad"

    def __str__(self) -> str:
        says = {"good": "better than", "watch": "perfect, as almost is", "bad": "no better than"}[self.level]
        return f"{self.metric} {self.score:.4f}, {says} {self.predictor}: {self.baseline:.4f}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "level": self.level}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Compared:
        return cls(**{name: value for name, value in facts.items() if name != "level"})


def worst_level(found: Sequence[Compared]) -> Level:
    """The lowest level of all comparisons."""
    levels = {one.level for one in found}
    return "bad" if "bad" in levels else "watch" if "watch" in levels else "good"


def health_line(
    found: Mapping[str, Compared] | Sequence[Compared],
    level: str | None = None,
    advice: str = "Train longer or raise --lr.",
) -> str:
    """The line that a command prints after training.

    found: the comparisons, by name for several tasks; level: overrides the level of the comparisons; advice: added to
    a bad level.
    """
    every = list(found.values()) if isinstance(found, Mapping) else list(found)
    named = [f"{name}: {one}" for name, one in found.items()] if isinstance(found, Mapping) else map(str, every)
    level = level or worst_level(every)
    return f"health: {level} ({'; '.join(named)})" + (f". {advice}" if level == "bad" else "")
