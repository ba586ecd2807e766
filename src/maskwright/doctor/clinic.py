"""The examination of a training file, alone or with its dev file, before any training."""

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
from . import labels, questions, tags
from .choices import ChoiceFacts
from .findings import Faults, Finding, in_order
from .labels import Labels
from .prints import Prints
from .questions import QuestionFacts
from .repeats import Repeats, find_repeats, near_findings, near_pairs, repeat_findings
from .rows import Item, TaskName, find_task, read_items
from .tags import Tags
from .texts import Characters, Constants, Lengths

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

Kind = Labels | Tags | QuestionFacts | ChoiceFacts
TASKS: tuple[TaskName, ...] = ("classification", "regression", "tagging", "qa", "choice")
_TELL_EVERY = 1000
_OF_TRAINING = ("few-rows", "uneven-classes", "empty-sentences")  # a dev file may be small, and is not learnt from


@dataclass
class Examined:
    """One file: its rows' prints, and all that was counted."""

    file: str
    prints: Prints
    faults: Faults
    characters: Characters
    lengths: Lengths
    constants: Constants
    kind: Kind

    def facts(self) -> dict[str, Any]:
        """For --json."""
        return {"file": self.file, "rows": len(self.prints), "bad_rows": len(self.faults.lines), **self.lengths.facts()}


@dataclass
class Diagnosis:
    """What was found, the worst first; repeats: row numbers of train, for the cleaned copy."""

    task: TaskName
    train: Examined
    dev: Examined | None
    repeats: Repeats
    findings: list[Finding]
    seconds: float = 0.0
    shares: Counter[str] = field(default_factory=Counter)

    @property
    def num_problems(self) -> int:
        """Kinds of faults that make training or scores wrong."""
        return sum(finding.severity == "problem" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
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
    """Look at a training file, and at a dev file beside it.

    task: None sees by the file; tokenizer: to count lengths in tokens, not words. Labelled texts and SQuAD files of any
    size are read as streams; hashes and counts of each row are kept, about 100 bytes. Raises InputError where nothing
    can be read.
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
    # Two right answers to one question are no conflict; two numbers for one pair are.
    found, kinds = find_repeats(one.prints, second, labels_may_differ=kind == "qa")
    findings = repeat_findings(one.prints, second, str(train), str(dev) if dev else None, found, kinds)
    if kind != "qa":

        def again() -> Iterator[Item]:
            for path in (train, dev):
                if path is not None:
                    yield from read_items(path, kind, roles, Faults())

        parts = [one.prints] + ([] if second is None else [second])
        plain = np.concatenate([part.plain for part in parts])
        pairs, is_cut = near_pairs(plain, np.concatenate([part.bands for part in parts]))
        findings += near_findings(pairs, is_cut, len(one.prints), again, (str(train), str(dev) if dev else None))
    findings += _findings_of(one, kind)
    if other is not None:
        in_dev = _findings_of(other, kind)
        findings += [finding for finding in in_dev if finding.name not in _OF_TRAINING] + _against(one, other, kind)
    shares = one.kind.counts if isinstance(one.kind, Labels) else one.kind.shown()
    return Diagnosis(kind, one, other, found, in_order(findings), time.monotonic() - begin, Counter(shares))


def _examine(path: Path, task: TaskName | None, roles: Mapping[str, str], tokenizer: Tokenizer | None) -> Examined:
    """One pass over a file."""
    name = str(path)
    makers: dict[str, Callable[[str], Kind]] = {"tagging": Tags, "qa": QuestionFacts, "choice": ChoiceFacts}
    maker = makers.get(task or "", Labels)
    seen = Examined(
        name, Prints(task != "qa"), Faults(), Characters(name), Lengths(name, tokenizer), Constants(name), maker(name)
    )
    with track(f"reading {path.name}", None, "rows") as progress:
        for number, item in enumerate(read_items(path, task, roles, seen.faults), start=1):
            seen.lengths.see(item, seen.prints.add(item))
            seen.characters.see(item)
            seen.constants.see(item)
            seen.kind.see(item)
            if not number % _TELL_EVERY:
                progress.update(number)
    if not len(seen.prints):
        raise InputError(f"{path} holds no row that can be read: {len(seen.faults.lines):,} bad ones.")
    seen.prints.close()
    seen.lengths.close()
    return seen


def _findings_of(one: Examined, task: TaskName) -> list[Finding]:
    of_kind = one.kind.findings(task == "regression") if isinstance(one.kind, Labels) else one.kind.findings()
    return [
        *one.faults.findings(),
        *one.characters.findings(),
        *one.lengths.findings(),
        *([] if task == "qa" else one.constants.findings()),
        *of_kind,
    ]


def _against(train: Examined, dev: Examined, task: TaskName) -> list[Finding]:
    one, other = train.kind, dev.kind
    if isinstance(one, Labels) and isinstance(other, Labels):
        return [] if task == "regression" else labels.against(one, other)
    if isinstance(one, Tags) and isinstance(other, Tags):
        return tags.against(one, other)
    if isinstance(one, QuestionFacts) and isinstance(other, QuestionFacts):
        return questions.against(one, other)
    return []
