"""Checks a training file, optionally together with a dev file, before training."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import ConfigError, InputError
from ..core.progress import track
from ..core.registry import unknown_name
from ..text.readers.detect import TaskName, find_task
from . import labels, questions, tags
from .choices import ChoiceStatistics
from .findings import Faults, Finding, in_order
from .fingerprints import RowFingerprints
from .labels import Labels
from .questions import QuestionStatistics
from .repeats import Repeats, find_repeats, near_findings, near_pairs, repeat_findings
from .rows import Item, read_items
from .tags import Tags
from .texts import Characters, Constants, Lengths

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

Kind = Labels | Tags | QuestionStatistics | ChoiceStatistics
TASKS: tuple[TaskName, ...] = ("classification", "regression", "tagging", "qa", "choice")
_PROGRESS_ROWS = 1000
_TRAINING_ONLY = ("few-rows", "uneven-classes", "empty-sentences")  # these do not matter in a dev file


@dataclass
class FileStatistics:
    """Row fingerprints and statistics of one file."""

    file: str
    prints: RowFingerprints
    faults: Faults
    characters: Characters
    lengths: Lengths
    constants: Constants
    kind: Kind

    def facts(self) -> dict[str, Any]:
        """Return the JSON summary of the file."""
        return {"file": self.file, "rows": len(self.prints), "bad_rows": len(self.faults.lines), **self.lengths.facts()}


@dataclass
class Diagnosis:
    """Findings sorted by severity; repeats: row indices of the training file that `--fix` uses."""

    task: TaskName
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
    if task is not None and task not in TASKS:
        raise ConfigError(unknown_name("task", task, TASKS))
    kind: TaskName | None = find_task(train, roles) if task is None else next(name for name in TASKS if name == task)
    one = _examine(train, kind, roles, tokenizer)
    if kind is None:
        is_numeric = isinstance(one.kind, Labels) and one.kind.looks_numeric
        kind = "regression" if is_numeric else "classification"
    other = None if dev is None else _examine(dev, kind, roles, tokenizer)
    second = None if other is None else other.prints
    # Two correct answers to one question do not conflict; two numbers for one pair do.
    found, kinds = find_repeats(one.prints, second, labels_may_differ=kind == "qa")
    findings = repeat_findings(one.prints, second, str(train), str(dev) if dev else None, found, kinds)
    if kind != "qa":

        def reread() -> Iterator[Item]:
            for path in (train, dev):
                if path is not None:
                    yield from read_items(path, kind, roles, Faults())

        parts = [one.prints] + ([] if second is None else [second])
        plain = np.concatenate([part.plain for part in parts])
        pairs, is_truncated = near_pairs(plain, np.concatenate([part.bands for part in parts]))
        findings += near_findings(pairs, is_truncated, len(one.prints), reread, (str(train), str(dev) if dev else None))
    findings += _findings_of(one, kind)
    if other is not None:
        in_dev = _findings_of(other, kind)
        findings += [finding for finding in in_dev if finding.name not in _TRAINING_ONLY] + _against(one, other, kind)
    shares = one.kind.counts if isinstance(one.kind, Labels) else one.kind.shown()
    return Diagnosis(kind, one, other, found, in_order(findings), time.monotonic() - begin, Counter(shares))


def _examine(
    path: Path, task: TaskName | None, roles: Mapping[str, str], tokenizer: Tokenizer | None
) -> FileStatistics:
    """Compute the statistics of a file in one pass."""
    name = str(path)
    makers: dict[str, Callable[[str], Kind]] = {"tagging": Tags, "qa": QuestionStatistics, "choice": ChoiceStatistics}
    maker = makers.get(task or "", Labels)
    seen = FileStatistics(
        name,
        RowFingerprints(task != "qa"),
        Faults(),
        Characters(name),
        Lengths(name, tokenizer),
        Constants(name),
        maker(name),
    )
    with track(f"reading {path.name}", None, "rows") as progress:
        for number, item in enumerate(read_items(path, task, roles, seen.faults), start=1):
            seen.lengths.see(item, seen.prints.add(item))
            seen.characters.see(item)
            seen.constants.see(item)
            seen.kind.see(item)
            if not number % _PROGRESS_ROWS:
                progress.update(number)
    if not len(seen.prints):
        raise InputError(f"{path} contains no valid row ({len(seen.faults.lines):,} invalid rows).")
    seen.prints.close()
    seen.lengths.close()
    return seen


def _findings_of(one: FileStatistics, task: TaskName) -> list[Finding]:
    of_kind = one.kind.findings(task == "regression") if isinstance(one.kind, Labels) else one.kind.findings()
    return [
        *one.faults.findings(),
        *one.characters.findings(),
        *one.lengths.findings(),
        *([] if task == "qa" else one.constants.findings()),
        *of_kind,
    ]


def _against(train: FileStatistics, dev: FileStatistics, task: TaskName) -> list[Finding]:
    one, other = train.kind, dev.kind
    if isinstance(one, Labels) and isinstance(other, Labels):
        return [] if task == "regression" else labels.against(one, other)
    if isinstance(one, Tags) and isinstance(other, Tags):
        return tags.against(one, other)
    if isinstance(one, QuestionStatistics) and isinstance(other, QuestionStatistics):
        return questions.against(one, other)
    return []
