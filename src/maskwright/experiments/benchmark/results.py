"""Results of a benchmark: each score as mean, deviation and best seed, and the average of the nine of GLUE.

Scores are fractions. The best seed is the one with the best dev score, also for scores on other files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...core.config import command_line
from ...report import (
    Block,
    Command,
    Comparison,
    Dots,
    Facts,
    Figure,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Section,
    System,
    Table,
    write_report,
)
from ...tasks.evaluation.published import GLUE_NINE, PublishedTable, glue_average, published
from ...train.run import RunFolder
from .config import BenchmarkConfig, Setting
from .prepare import PARTS, Prepared


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


# -- A benchmark's scores as text tables, with the published scores in separate tables -------------------------------


OWN_COLUMNS = ("number", "metric", "mean ± deviation", "best on dev", "seeds", "train rows", "rows")
_DEV = (
    "Scores in percent. The best epoch of each seed and the best seed are chosen on dev, so dev scores are optimistic."
)
_TEST = " The published numbers of GLUE are of its test sets."


class OwnRow(NamedTuple):
    """One row of the table of measured scores, as text."""

    number: str
    metric: str
    score: str
    best: str
    seeds: int
    train_rows: str
    rows: str


def own_rows(results: Results) -> list[OwnRow]:
    """A row for each metric of each score, the main metric first."""
    return [
        OwnRow(
            number.name,
            metric.replace("_", " "),
            plus_minus(summary),
            per_cent(summary.best),
            len(part.seeds),
            _train_rows(part),
            f"{number.rows:,} {number.split.replace('_', ' ')}",
        )
        for part in results.parts
        for number in part.numbers
        for metric, summary in number.metrics.items()
    ]


def dev_note(results: Results) -> str:
    """The note on dev scores."""
    return _DEV + _TEST * (results.config.benchmark == "glue")


def average_line(results: Results) -> str:
    """The average of the nine GLUE scores, or why there is none; "" for other benchmarks."""
    if results.config.benchmark != "glue":
        return ""
    average = results.average
    if average is None:
        return f"Average: not available, because some of the nine scores are missing ({', '.join(results.lacking)})."
    return f"Average of the nine scores: {plus_minus(average)}; of the best seeds: {per_cent(average.best)}."


def facts_lines(results: Results) -> list[str]:
    """Model, data, settings, seeds, and missing scores."""
    config = results.config
    lines = [f"Model: {config.model}", f"Data: {config.data}"]
    if config.max_train_rows:
        lines.append(f"At most {config.max_train_rows:,} training rows per part.")
    lines += [f"{part.name}: {setting_words(part)}." for part in results.parts]
    lines += [f"{name} is not measured: {reason}." for name, reason in results.missing.items()]
    if results.waiting:
        lines.append(f"Not finished yet: {', '.join(results.waiting)}.")
    return lines


def setting_words(part: PartResult) -> str:
    """Setting and seeds of a part."""
    tried = f", the best on dev of {len(part.tried)} settings" if part.tried else ""
    seeds = ", ".join(map(str, part.seeds))
    return f"{part.setting.words}{tried}; seeds {seeds}; best on dev: seed {part.best_seed}"


def published_tables(results: Results) -> list[PublishedTable]:
    """All published tables of the measured parts."""
    done = {part.name for part in results.parts}
    names = dict.fromkeys(
        part.published for part in PARTS[results.config.benchmark] if part.name in done and part.published
    )
    return [table for name in names for table in published(name)]


def published_rows(table: PublishedTable) -> list[list[str]]:
    """System and scores, with the same number of decimals in each column, "-" for missing scores."""
    columns = [[row.values.get(column.name) for row in table.rows] for column in table.columns]
    printed = [[_printed(value, _decimals(values)) for value in values] for values in columns]
    return [[row.name, *cells] for row, *cells in zip(table.rows, *printed, strict=True)]


def published_title(table: PublishedTable) -> str:
    """The title of a published table."""
    return f"Published, not measured here: {table.title} ({table.label})"


def markdown(results: Results) -> str:
    """All results as Markdown."""
    parts = [
        f"# {results.config.benchmark}: measured here",
        _table(OWN_COLUMNS, [list(row) for row in own_rows(results)]),
    ]
    parts += [average_line(results)] if average_line(results) else []
    parts += [dev_note(results), "\n".join(f"- {line}" for line in facts_lines(results))]
    for table in published_tables(results):
        columns = ["system", *(column.name for column in table.columns)]
        parts += [f"## {published_title(table)}", _table(columns, published_rows(table)), f"Source: {table.source}."]
    return "\n\n".join(parts) + "\n"


def comparable(number: NumberResult, table: PublishedTable) -> str | None:
    """The column of a published table with the same score and main metric; None if there is none."""
    for column in table.columns:
        same_name = column.name == number.name
        if column.metric == number.metric and (
            same_name or (table.benchmark != "glue" and column.split == number.split)
        ):
            return column.name
    return None


def plus_minus(summary: Summary) -> str:
    """84.3 ± 0.4 in percent; without the deviation for one seed."""
    if len(summary.seeds) < 2:
        return per_cent(summary.mean)
    return f"{per_cent(summary.mean)} ± {per_cent(summary.deviation)}"


def per_cent(value: float) -> str:
    """0.8432 -> 84.3."""
    return f"{100 * value:.1f}"


def _train_rows(part: PartResult) -> str:
    train = part.facts["splits"]["train"]
    rows, whole = train["rows"], train["rows_in_file"]
    return f"{rows:,}" if rows == whole else f"{rows:,} of {whole:,}"


def _decimals(values: Sequence[float | None]) -> int:
    """The maximum number of decimals."""
    return max((len(repr(float(value)).partition(".")[2]) for value in values if value is not None), default=0)


def _printed(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)


# -- report.html of a benchmark: measured scores with every seed, and published scores in separate tables ------------


def write_page(run: RunFolder, results: Results) -> None:
    """Write report.html of the finished parts."""
    title = f"{results.config.benchmark} with {results.config.model}"
    blocks = [
        KeyFigures(_figures(results)),
        Table(OWN_COLUMNS, [list(row) for row in own_rows(results)], title="Measured here", note=dev_note(results)),
        Dots({name: _score(number) for name, number in results.numbers.items()}, title="Every seed", unit="percent"),
        *_beside(results),
        Section("Published, not measured here", _published(results), "From papers and leaderboards, as published."),
        RunMetadata(
            command_line(BenchmarkConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        _data(results),
        Facts({part.name: setting_words(part) for part in results.parts}, title="Settings and seeds"),
        Facts(_absent(results), title="Not measured"),
        _next(results),
    ]
    write_report(run.path / "report.html", Report(title, _headline(results), None, blocks, run.facts()["started"]))


def _headline(results: Results) -> str:
    line = average_line(results)
    if results.average is not None:
        return line
    numbers = [f"{number.name} {plus_minus(number.summary)}" for number in results.numbers.values()]
    return f"{', '.join(numbers)}. {line}".strip()


def _figures(results: Results) -> list[Figure]:
    average = results.average
    if average is not None:
        return [Figure("Average of nine", plus_minus(average), note=f"best seeds {per_cent(average.best)}")]
    return [
        Figure(number.name, plus_minus(number.summary), note=f"{number.metric}, {number.split}".replace("_", " "))
        for number in list(results.numbers.values())[:6]
    ]


def _score(number: NumberResult) -> Score:
    summary = number.summary
    return Score(summary.mean, summary.deviation if len(summary.seeds) > 1 else None, summary.seeds)


def _beside(results: Results) -> list[Block]:
    """Measured and published systems on one axis, except for GLUE, whose scores are in the tables."""
    if results.config.benchmark == "glue":
        return []
    blocks: list[Block] = []
    for number in results.numbers.values():
        systems = [System("this run", {number.metric: _score(number)}, seeds=len(number.summary.seeds))]
        for table in published_tables(results):
            column = comparable(number, table)
            found = [row for row in table.rows if column in row.scores]
            label = table.label
            systems += [
                System(row.name, {number.metric: row.scores[column].value / 100}, note=label, source="published")  # type: ignore[index]  # a name
                for row in found
            ]
        if len(systems) > 1:
            note = f"This run: {number.rows:,} {number.split} rows; published systems: the full benchmark."
            blocks.append(
                Comparison(systems, title=f"{number.name} compared with published systems", note=note, unit="percent")
            )
    return blocks


def _published(results: Results) -> list[Block]:
    return [
        Table(
            ["system", *(column.name for column in table.columns)],
            published_rows(table),
            title=published_title(table),
            note=f"Source: {table.source}. {' '.join(table.notes)}".strip(),
        )
        for table in published_tables(results)
    ]


def _data(results: Results) -> Facts:
    facts: dict[str, Any] = {}
    for part in results.parts:
        for split, one in part.facts["splits"].items():
            left_out = one["skipped"] + one["without_gold"]
            capped = [f"sampled from {one['rows_in_file']:,}"] * (one["rows"] < one["rows_in_file"])
            remark = ", ".join(capped + [f"{left_out:,} skipped"] * bool(left_out))
            facts[f"{part.name}, {split.replace('_', ' ')}"] = (one["rows"], remark) if remark else one["rows"]
    return Facts(facts, title="Rows")


def _absent(results: Results) -> dict[str, str]:
    return dict(results.missing) | dict.fromkeys(results.waiting, "not finished yet")


def _next(results: Results) -> NextSteps:
    """Commands for an ensemble of all seeds of each part; with one seed, for its errors."""
    commands = []
    for part in results.parts:
        dev = f"{part.facts['folder']}/dev.jsonl"
        if len(part.models) > 1:
            first, *others = part.models
            about, others = f"{part.name}: ensemble", tuple(others)
            commands.append(Command.suggest(about, "evaluate", model=first, file=dev, ensemble=others))
        else:
            about = f"{part.name}: its errors"
            commands.append(Command.suggest(about, "evaluate", model=part.models[0], file=dev, errors=10))
    return NextSteps(commands)
