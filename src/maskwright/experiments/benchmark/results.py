"""Results of a benchmark: each score as mean, deviation and best seed, and the average of the nine of GLUE.

Scores are fractions. The best seed is the one with the best dev score, also for scores on other files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tasks.evaluation.published import GLUE_NINE, glue_average
from .config import BenchmarkConfig, Setting
from .prepare import Prepared


@dataclass(frozen=True)
class Summary:
    """A metric over seeds. deviation: sample standard deviation, 0 for one seed; best: that of the best seed on dev."""

    mean: float
    deviation: float
    best: float
    seeds: list[float]

    @classmethod
    def of(cls, values: Sequence[float], best: int) -> Summary:
        """values: one for each seed; best: index of the best seed on dev."""
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), deviation, float(values[best]), [float(value) for value in values])


@dataclass(frozen=True)
class NumberResult:
    """One score. metric: the main metric; metrics: all official metrics by name; rows: number of evaluated rows."""

    name: str
    split: str
    rows: int
    metric: str
    metrics: dict[str, Summary]

    @property
    def summary(self) -> Summary:
        """The summary of the main metric."""
        return self.metrics[self.metric]


@dataclass(frozen=True)
class PartResult:
    """A finished part. tried: setting -> dev score with the first seed, for a grid search; models: the model folder of
    each seed.
    """

    name: str
    task: str
    setting: Setting
    facts: dict[str, Any]
    numbers: list[NumberResult]
    best_seed: int
    seeds: list[int]
    models: list[str]
    tried: dict[str, float] = field(default_factory=dict)


def part_result(
    prepared: Prepared,
    setting: Setting,
    seeds: Sequence[int],
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    models: Sequence[str],
    tried: Mapping[str, float],
) -> PartResult:
    """Summarize a part. scores: split -> the metrics of each seed."""
    part = prepared.part
    chosen_by = [metrics[part.metric] for metrics in scores[part.numbers[0].split]]
    best = int(np.argmax(chosen_by))  # the first of equals
    numbers = []
    for number in part.numbers:
        if number.split not in scores:
            continue
        every = scores[number.split]
        known = [name for name in number.metrics if all(name in metrics for metrics in every)]
        metrics = {name: Summary.of([metrics[name] for metrics in every], best) for name in known}
        numbers.append(NumberResult(number.name, number.split, prepared.rows(number.split), number.metrics[0], metrics))
    return PartResult(
        part.name, part.task, setting, prepared.facts, numbers, seeds[best], list(seeds), list(models), dict(tried)
    )


@dataclass(frozen=True)
class Results:
    """The finished results of a benchmark. missing: score -> why it cannot be measured; waiting: unfinished parts."""

    config: BenchmarkConfig
    parts: list[PartResult]
    missing: dict[str, str]
    waiting: list[str]

    @property
    def numbers(self) -> dict[str, NumberResult]:
        """All scores by name."""
        return {number.name: number for part in self.parts for number in part.numbers}

    @property
    def lacking(self) -> list[str]:
        """The missing ones of GLUE's nine scores."""
        return [name for name in GLUE_NINE if name not in self.numbers] if self.config.benchmark == "glue" else []

    @property
    def average(self) -> Summary | None:
        """The average of the nine GLUE scores over seeds; best: of the best seeds. None if any is missing."""
        found = self.numbers
        if self.config.benchmark != "glue" or self.lacking:
            return None
        nine = {name: found[name].summary for name in GLUE_NINE}
        seeds = [
            glue_average({name: summary.seeds[seed] for name, summary in nine.items()})
            for seed in range(self.config.seeds)
        ]
        average = Summary.of(seeds, 0)
        best = glue_average({name: summary.best for name, summary in nine.items()})
        return Summary(average.mean, average.deviation, best, average.seeds)

    @classmethod
    def from_json(cls, config: BenchmarkConfig, facts: Mapping[str, Any]) -> Results:
        """The inverse of `to_json`."""
        parts = [
            PartResult(**{**part, "setting": Setting(**part["setting"]), "numbers": _numbers(part["numbers"])})
            for part in facts["parts"]
        ]
        return cls(config, parts, facts["missing"], facts["waiting"])

    def to_json(self) -> dict[str, Any]:
        """Plain values, for results.json."""
        return {
            "benchmark": self.config.benchmark,
            "model": self.config.model,
            "data": str(self.config.data),
            "seeds": self.config.all_seeds,
            "max_train_rows": self.config.max_train_rows or None,
            "parts": [_plain(part) for part in self.parts],
            "missing": self.missing,
            "waiting": self.waiting,
            "average": None if self.average is None else vars(self.average),
            "average_lacks": self.lacking,
        }


def _numbers(facts: Mapping[str, Mapping[str, Any]]) -> list[NumberResult]:
    known = ("split", "rows", "metric")
    return [
        NumberResult(
            name,
            number["split"],
            number["rows"],
            number["metric"],
            {metric: Summary(**summary) for metric, summary in number.items() if metric not in known},
        )
        for name, number in facts.items()
    ]


def _plain(part: PartResult) -> dict[str, Any]:
    numbers = {
        number.name: {
            "split": number.split,
            "rows": number.rows,
            "metric": number.metric,
            **{name: vars(summary) for name, summary in number.metrics.items()},
        }
        for number in part.numbers
    }
    return {**vars(part), "setting": part.setting._asdict(), "numbers": numbers}
