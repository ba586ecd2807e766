"""HTML report of a data check: findings with locations, classes, lengths."""

from __future__ import annotations

from pathlib import Path

from ..core.plural import plural
from ..report import (
    Bar,
    Bars,
    Block,
    Command,
    Facts,
    Health,
    Histogram,
    NextSteps,
    Report,
    RunMetadata,
    Table,
    write_report,
)
from ..report.content import Level
from ..report.numbers import percent
from ..tasks.spec import spec_of
from .choices import ChoiceStatistics
from .clinic import Diagnosis, FileStatistics
from .findings import Finding
from .questions import QuestionStatistics
from .tags import Tags

_NAMES = {
    Tags: "Entities or tags",
    QuestionStatistics: "Questions",
    ChoiceStatistics: "Positions of the correct answer",
}


def write_diagnosis(path: Path, diagnosis: Diagnosis, command: str) -> None:
    """Write a self-contained HTML report. command: the command line that ran."""
    problems = diagnosis.num_problems
    files = " and ".join(Path(one.file).name for one in (diagnosis.train, diagnosis.dev) if one is not None)
    blocks: list[Block] = [
        RunMetadata(command),
        _findings("Findings", diagnosis.findings),
        *[_places(finding) for finding in diagnosis.findings if finding.places],
        *[block for one in (diagnosis.train, diagnosis.dev) if one is not None for block in _file(one)],
        _classes(diagnosis),
        NextSteps(next_steps(diagnosis)),
    ]
    severities = {finding.severity for finding in diagnosis.findings}
    level: Level = "bad" if problems else "watch" if "warning" in severities else "good"
    worst = [finding.sentence for finding in diagnosis.findings if finding.severity != "note"][:5]
    health = Health(level, worst or ["No finding would harm training."])
    write_report(path, Report(f"data for {diagnosis.task}", headline(diagnosis, files), health, blocks))


def headline(diagnosis: Diagnosis, files: str) -> str:
    """Return the result in one sentence."""
    kinds = len(diagnosis.findings)
    problems = diagnosis.num_problems
    found = (
        f"{problems} of {plural(kinds, 'finding')} would harm training or scores"
        if problems
        else f"{plural(kinds, 'finding')}, none severe"
    )
    return f"{files}: {found if kinds else 'no findings'}."


def next_steps(diagnosis: Diagnosis) -> list[Command]:
    """Return the suggested next commands."""
    train = Path(diagnosis.train.file)
    steps = []
    if len(diagnosis.repeats.removable):
        dev = None if diagnosis.dev is None else diagnosis.dev.file
        about = "write a copy without duplicates, leaks and conflicts"
        fixed = f"{train.stem}.fixed{train.suffix}"
        steps.append(Command.suggest(about, "doctor data", train=train, dev=dev, fix=fixed))
    skips = bool(diagnosis.train.faults.lines)
    about = "train on it" + (", skipping invalid rows" if skips else "")
    values = {"model": "MODEL", "train": train, "skip_bad_rows": skips, "output": "runs/a"}
    return [*steps, Command.suggest(about, "finetune", task=diagnosis.task, **values)]


def _findings(title: str, findings: list[Finding]) -> Table:
    rows = [(one.severity, one.count, one.sentence, one.advice) for one in findings]
    return Table(("severity", "count", "finding", "fix"), rows, title=title)


def _places(finding: Finding) -> Table:
    rows = [(Path(place.file).name, place.line, place.detail) for place in finding.places]
    more = finding.count - len(rows)
    note = f"and {more:,} more" if more > 0 else ""
    return Table(("file", "line", "detail"), rows, title=finding.name.replace("-", " ").capitalize(), note=note)


def _file(one: FileStatistics) -> list[Block]:
    facts = {"rows": len(one.prints), "invalid rows": len(one.faults.lines)}
    shown = {name: percent(value) if name.startswith("share") else value for name, value in one.lengths.facts().items()}
    unit, edges, counts = one.lengths.histogram()
    name = Path(one.file).name
    return [
        Facts({**facts, **shown}, title=name),
        Histogram(edges, counts, title=f"Row lengths of {name}", x_label=unit, y_label="rows"),
    ]


def _classes(diagnosis: Diagnosis) -> Bars:
    total = max(sum(diagnosis.shares.values()), 1)
    bars = [
        Bar(name[:60] or "(empty)", count, f"{count:,} ({percent(count / total)})")
        for name, count in diagnosis.shares.most_common(30)
    ]
    if spec_of(diagnosis.task).has_numbers:
        bars = []
    return Bars(bars, title=_NAMES.get(type(diagnosis.train.kind), "Classes"))
