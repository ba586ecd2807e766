"""Runs an experiment part by part; finished parts are kept, so rerunning the same command resumes.

A run folder has parts/NAME.json for each finished part, table.md and report.html, and result.json at the end. An
experiment says what its parts are (`Experiment.measure`) and how their results are shown (`Experiment.show`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..core import storage
from ..core.progress import note
from ..models.device import resolve_device, resolve_precision
from ..report import Block, Command, NextSteps, Paragraph, Report, RunMetadata, Table, write_report
from ..report.numbers import duration
from ..train.inputs import Finder
from ..train.run import RunFolder, open_run_of
from .config import ExperimentConfig

Facts = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One part of an experiment. name: of its file; title: in messages; cost: relative, for the remaining time."""

    name: str
    title: str
    compute: Callable[[], Facts | None]  # plain values; None for a part that is left out
    cost: float = 1.0


@dataclass(frozen=True)
class Shown:
    """Results in words. sentences: the first one is the headline; blocks: more of the page; next_steps: commands."""

    title: str
    sentences: Sequence[str]
    tables: Sequence[Table]
    blocks: Sequence[Block] = ()
    next_steps: Sequence[Command] = ()


@dataclass(frozen=True)
class ExperimentResult:
    """Where the results are and what they are. facts: plain values, as in result.json; shown: the same in words."""

    output: Path
    facts: Facts = field(repr=False)
    shown: Shown = field(repr=False)
    already_finished: bool = False

    @property
    def report(self) -> Path:
        return self.output / "report.html"

    @property
    def rows(self) -> list[Facts]:
        """The rows of the comparison, as plain values."""
        return list(self.facts["rows"])


class Keeper:
    """Computes parts once. folder: where their results are kept; log: called with each new result."""

    def __init__(self, folder: Path, log: Callable[[Facts], None] = lambda record: None) -> None:
        self.folder, self.log = folder, log
        self.num_parts, self.cost = 0, 0.0  # of everything that is planned
        self.number, self._done, self._spent, self._started = 0, 0.0, 0.0, time.monotonic()

    def expect(self, parts: Sequence[Part]) -> None:
        """Announce parts, for the count and the remaining time in messages."""
        self.num_parts += len(parts)
        self.cost += sum(part.cost for part in parts)

    def run(self, parts: Sequence[Part], after: Callable[[], object] = lambda: None) -> dict[str, Facts]:
        """The results of parts by name; unfinished ones are computed. after: called after each new one."""
        if not self.num_parts:
            self.expect(parts)
        found = {}
        for part in parts:
            path = self.folder / f"{part.name}.json"
            self.number += 1
            self._done += part.cost
            if not path.exists():
                rate = (time.monotonic() - self._started) / self._spent if self._spent else 0.0
                left = (self.cost - self._done + part.cost) * rate
                rest = f"; about {duration(left)} left" if left else ""
                note(f"Part {self.number} of {self.num_parts}: {part.title}{rest}.")
                result = part.compute()
                if result is None:
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                storage.write_json(path, result)
                self.log({"step": self.number, "part": part.name, **result.get("metrics", {})})
                self._spent += part.cost
                after()
            found[part.name] = storage.read_json(path)
        return found


class Experiment:
    """The data of one experiment and its parts, in a run folder."""

    inputs: ClassVar[Callable[[Any], Mapping[str, Finder]] | None] = None  # finds files that the settings do not name

    def __init__(self, config: Any, run: RunFolder) -> None:
        self.config, self.run = config, run
        self.keeper = Keeper(run.path / "parts", run.log)

    def measure(self) -> Facts:
        """Run the unfinished parts; returns the results as plain values."""
        raise NotImplementedError

    @classmethod
    def show(cls, recipe: Mapping[str, Any], facts: Facts) -> Shown:
        raise NotImplementedError

    def run_parts(self, parts: Sequence[Part], after: Callable[[], object] = lambda: None) -> dict[str, Facts]:
        """As `Keeper.run`; the files that parts read are checked after each."""

        def checked() -> None:
            self.run.check_inputs()
            after()

        return self.keeper.run(parts, checked)

    def write(self, facts: Facts) -> None:
        """Write table.md and report.html."""
        recipe, about = self.run.recipe, self.run.facts()
        metadata = RunMetadata.of(type(self.config), recipe, about)
        write_results(self.run.path, self.show(recipe, facts), metadata, about["started"])


def write_results(folder: Path, shown: Shown, metadata: RunMetadata | None, made: str = "") -> None:
    """Write table.md and report.html."""
    storage.write_text(folder / "table.md", markdown(shown))
    headline, *rest = shown.sentences
    blocks = [Paragraph(" ".join(rest)), *shown.tables, *shown.blocks, *([metadata] if metadata else [])]
    report = Report(shown.title, headline, None, [*blocks, NextSteps(shown.next_steps)], made)
    write_report(folder / "report.html", report)


def markdown(shown: Shown) -> str:
    """The tables and sentences as Markdown."""
    parts = [f"# {shown.title}", *shown.sentences]
    for table in shown.tables:
        lines = [table.columns, ["---"] * len(table.columns), *table.rows]
        rows = [f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines]
        parts += [f"## {table.title}"] * bool(table.title) + ["\n".join(rows)] + [table.note] * bool(table.note)
    return "\n\n".join(parts) + "\n"


def run_experiment(kind: type[Experiment], config: ExperimentConfig, *, restart: bool = False) -> ExperimentResult:
    """Run `config`, or resume it; a finished run is returned unchanged.

    Raises RunError when the folder contains another run or the data have changed, RowErrors for bad rows,
    ModelFolderError for an unreadable model.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    own = kind.inputs(config) if kind.inputs else None
    with open_run_of(config, own, restart=restart) as run:
        finished = run.result
        if finished is None:
            experiment = kind(config, run)
            try:
                facts = json.loads(json.dumps(experiment.measure()))
            except KeyboardInterrupt:
                note("Finished parts are kept. Rerun the same command to resume.")
                raise
            experiment.write(facts)
            run.finish(facts)
        else:  # the results of a benchmark were in a file of their own
            facts = storage.read_json(run.path / finished["results"]) if "results" in finished else finished
        return ExperimentResult(run.path, facts, kind.show(run.recipe, facts), finished is not None)
