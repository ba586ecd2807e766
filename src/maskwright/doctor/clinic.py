"""Checks a training file, optionally together with a dev file, before training."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import registry
from ..core.errors import ConfigError, InputError
from ..core.progress import be_silent, track
from ..core.registry import unknown_name
from ..core.util import plural
from ..report import (
    Bar,
    Bars,
    Block,
    Command,
    Facts,
    Health,
    Histogram,
    Level,
    NextSteps,
    Report,
    RunMetadata,
    Table,
    write_report,
)
from ..report.numbers import percent
from ..tasks.specs import reader_for, spec_of, task_for
from ..text.annotations.reader import find_annotations
from ..text.fingerprints import RowFingerprints, near_pairs
from ..text.formats.files import bare_suffix
from ..text.readers.tables import Reader, find_reader
from ..text.readers.tagged import column_facts
from . import checks as labels
from . import checks as questions
from . import checks as tags
from .checks import Characters, ChoiceStatistics, Constants, Labels, Lengths, QuestionStatistics, Tags
from .repeats import Repeats, find_repeats, near_findings, repeat_findings
from .rows import Faults, Finding, Item, in_order, read_items

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

Kind = Labels | Tags | QuestionStatistics | ChoiceStatistics
_STATISTICS: dict[str, Callable[[str], Kind]] = {
    "tagged": Tags,
    "questions": QuestionStatistics,
    "choices": ChoiceStatistics,
}  # by reader; Labels for the others
_PROGRESS_ROWS = 1000
_TRAINING_ONLY = ("few-rows", "uneven-classes", "empty-sentences")  # these do not matter in a dev file


@dataclass
class FileStatistics:
    """Row fingerprints and statistics of one file.

    format: name of its format; summary: what was read of an annotation file or of columns, and what was left out.
    """

    file: str
    prints: RowFingerprints
    faults: Faults
    characters: Characters
    lengths: Lengths
    constants: Constants
    kind: Kind
    format: str = ""
    summary: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the JSON summary of the file."""
        counts = {"rows": len(self.prints), "bad_rows": len(self.faults.lines), **self.lengths.facts()}
        return {"file": self.file, "format": self.format, **({"read": self.summary} if self.summary else {}), **counts}


@dataclass
class Diagnosis:
    """Findings sorted by severity; repeats: row indices of the training file that `--fix` uses."""

    task: str
    train: FileStatistics
    dev: FileStatistics | None
    repeats: Repeats
    findings: list[Finding]
    seconds: float = 0.0
    shares: Counter[str] = field(default_factory=Counter)

    @property
    def num_problems(self) -> int:
        """Number of findings that make training or scores wrong."""
        return sum(finding.severity == "problem" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return {
            "task": self.task,
            "files": [one.facts() for one in (self.train, self.dev) if one is not None],
            "labels": dict(self.shares.most_common(100)),
            "findings": [finding.to_json() for finding in self.findings],
            "seconds": round(self.seconds, 2),
        }


def examine(
    train: Path,
    dev: Path | None = None,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
) -> Diagnosis:
    """Check a training file and, optionally, a dev file.

    Labeled texts and SQuAD files are streamed, at about 100 bytes of memory per row.

    Args:
        task: task name; None detects it from the file.
        columns: column mapping, role to column name.
        tokenizer: counts lengths in tokens instead of words.

    Raises:
        ConfigError: for an unknown task.
        InputError: if no row can be read.
    """
    begin = time.monotonic()
    roles = dict(columns or {})
    if task is None:
        reader = find_reader(train, roles) or registry.resolve("reader", "texts")
    elif task in registry.names("task"):
        reader = reader_for(task, train, roles)
    else:
        raise ConfigError(unknown_name("task", task, registry.names("task")))
    one = _examine(train, reader, roles, tokenizer)
    if task is None:
        is_numeric = reader.name == "texts" and isinstance(one.kind, Labels) and one.kind.looks_numeric
        task = task_for(reader.name, has_numbers=is_numeric)
    of_dev = None if dev is None else reader_for(task, dev, roles)
    other = None if dev is None or of_dev is None else _examine(dev, of_dev, roles, tokenizer)
    second = None if other is None else other.prints
    has_questions = isinstance(one.kind, QuestionStatistics)
    # Two correct answers to one question do not conflict; two numbers for one pair do.
    found, kinds = find_repeats(one.prints, second, labels_may_differ=has_questions)
    findings = repeat_findings(one.prints, second, str(train), str(dev) if dev else None, found, kinds)
    if not has_questions:

        def reread() -> Iterator[Item]:
            with be_silent():
                yield from read_items(train, reader, roles, Faults())
                if dev is not None and of_dev is not None:
                    yield from read_items(dev, of_dev, roles, Faults())

        parts = [one.prints] + ([] if second is None else [second])
        plain = np.concatenate([part.plain for part in parts])
        pairs, is_truncated = near_pairs(plain, np.concatenate([part.bands for part in parts]))
        findings += near_findings(pairs, is_truncated, len(one.prints), reread, (str(train), str(dev) if dev else None))
    has_numbers = spec_of(task).has_numbers
    findings += _findings_of(one, has_numbers)
    if other is not None:
        in_dev = _findings_of(other, has_numbers)
        findings += [finding for finding in in_dev if finding.name not in _TRAINING_ONLY]
        findings += _against(one, other, has_numbers)
    shares = one.kind.counts if isinstance(one.kind, Labels) else one.kind.shown()
    return Diagnosis(task, one, other, found, in_order(findings), time.monotonic() - begin, Counter(shares))


def _examine(path: Path, reader: Reader, roles: Mapping[str, str], tokenizer: Tokenizer | None) -> FileStatistics:
    """Compute the statistics of a file in one pass."""
    name = str(path)
    maker = _STATISTICS.get(reader.name, Labels)
    seen = FileStatistics(
        name,
        RowFingerprints(maker is not QuestionStatistics),
        Faults(),
        Characters(name),
        Lengths(name, tokenizer),
        Constants(name),
        maker(name),
    )
    with track(f"reading {path.name}", None, "rows") as progress:
        for number, item in enumerate(read_items(path, reader, roles, seen.faults), start=1):
            seen.lengths.see(item, seen.prints.add(item.text, item.pair, item.label, item.line))
            seen.characters.see(item)
            seen.constants.see(item)
            seen.kind.see(item)
            if not number % _PROGRESS_ROWS:
                progress.update(number)
    if not len(seen.prints):
        raise InputError(f"{path} contains no valid row ({len(seen.faults.lines):,} invalid rows).")
    seen.prints.close()
    seen.lengths.close()
    annotated = find_annotations(path, roles)
    seen.format = bare_suffix(path).removeprefix(".") if annotated is None else annotated.format
    seen.summary = "" if annotated is None else annotated.summary
    if annotated is None and isinstance(seen.kind, Tags) and (facts := column_facts(path, roles)) is not None:
        seen.format = facts[0]
        seen.summary = f"{name} ({facts[0]}): {facts[1]}; {seen.kind.described}."
    return seen


def _findings_of(one: FileStatistics, has_numbers: bool) -> list[Finding]:
    of_kind = one.kind.findings(has_numbers) if isinstance(one.kind, Labels) else one.kind.findings()
    return [
        *one.faults.findings(),
        *one.characters.findings(),
        *one.lengths.findings(),
        *([] if isinstance(one.kind, QuestionStatistics) else one.constants.findings()),
        *of_kind,
    ]


def _against(train: FileStatistics, dev: FileStatistics, has_numbers: bool) -> list[Finding]:
    one, other = train.kind, dev.kind
    if isinstance(one, Labels) and isinstance(other, Labels):
        return [] if has_numbers else labels.against(one, other)
    if isinstance(one, Tags) and isinstance(other, Tags):
        return tags.tags_against(one, other)
    if isinstance(one, QuestionStatistics) and isinstance(other, QuestionStatistics):
        return questions.questions_against(one, other)
    return []


# -- HTML report of a data check: findings with locations, classes, lengths ------------------------------------------


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
