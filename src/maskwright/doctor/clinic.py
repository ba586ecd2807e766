"""Checks a training file, optionally together with a dev file, before training."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Level,
    NextSteps,
    Report,
    RunMetadata,
    Table,
    write_report,
)
from ..report.charts import Histogram
from ..report.numbers import percent
from ..tasks.specs import reader_for, spec_of, task_for
from ..text.annotations.reader import find_annotations
from ..text.fingerprints import MAX_PAIRS, NEAR, RowFingerprints, equal_rows, near_pairs, overlap
from ..text.formats.files import bare_suffix
from ..text.readers.tables import Reader, find_reader
from ..text.readers.tagged import column_facts
from .checks import (
    KINDS,
    SHOWN,
    Choices,
    Constants,
    Faults,
    Finding,
    Findings,
    Item,
    Kind,
    Labels,
    Lengths,
    Questions,
    Tags,
    in_order,
    read_items,
    see_characters,
)

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

_PROGRESS_ROWS = 1000
_TRAINING_ONLY = ("few-rows", "uneven-classes", "empty-sentences")  # these do not matter in a dev file


@dataclass
class FileStatistics:
    """Row fingerprints and statistics of one file.

    format: name of its format; summary: what was read of an annotation file or of columns, and what was left out.
    """

    file: str
    findings: Findings
    prints: RowFingerprints
    faults: Faults
    lengths: Lengths
    kind: Kind
    format: str = ""
    summary: str = ""

    def facts(self) -> dict[str, Any]:
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
        return sum(finding.severity == "problem" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
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
    """Check a training file and, optionally, a dev file, at about 100 bytes of memory per row of labeled texts or
    SQuAD.

    task: None detects it from the file; columns: role to column name; tokenizer: counts lengths in tokens instead of
    words. Raises ConfigError for an unknown task, InputError if no row can be read.
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
    files = [(train, reader)] if dev is None else [(train, reader), (dev, reader_for(task, dev, roles))]
    other = None if dev is None else _examine(*files[1], roles, tokenizer)
    has_questions = isinstance(one.kind, Questions)
    # Two correct answers to one question do not conflict; two numbers for one pair do.
    found = find_repeats(one, other, labels_may_differ=has_questions)
    if not has_questions:

        def reread() -> Iterator[Item]:
            with be_silent():
                for path, own in files:
                    yield from read_items(path, own, roles, Faults(Findings(str(path))))

        find_near(one, other, reread)
    has_numbers = spec_of(task).has_numbers
    one.kind.find(has_numbers)
    findings = one.findings.listed()
    if other is not None:
        other.kind.find(has_numbers)
        if type(one.kind) is type(other.kind) and not (has_numbers and isinstance(one.kind, Labels)):
            one.kind.find_against(other.kind)  # type: ignore[arg-type]  # of the same class
        findings += [finding for finding in other.findings.listed() if finding.name not in _TRAINING_ONLY]
    return Diagnosis(task, one, other, found, in_order(findings), time.monotonic() - begin, one.kind.shown())


def _examine(path: Path, reader: Reader, roles: Mapping[str, str], tokenizer: Tokenizer | None) -> FileStatistics:
    findings, constants = Findings(str(path)), Constants()
    kind = KINDS.get(reader.name, Labels)(findings)
    has_questions = isinstance(kind, Questions)
    faults, lengths, prints = Faults(findings), Lengths(tokenizer), RowFingerprints(not has_questions)
    seen = FileStatistics(str(path), findings, prints, faults, lengths, kind)
    with track(f"reading {path.name}", None, "rows") as progress:
        for number, item in enumerate(read_items(path, reader, roles, faults), start=1):
            lengths.see(item, prints.add(item.text, item.pair, item.label, item.line))
            see_characters(findings, item)
            constants.see(item)
            kind.see(item)
            if not number % _PROGRESS_ROWS:
                progress.update(number)
    if not len(prints):
        raise InputError(f"{path} contains no valid row ({len(faults.lines):,} invalid rows).")
    prints.close()
    lengths.close()
    lengths.find(findings)
    if not has_questions:
        constants.find(findings)
    annotated = find_annotations(path, roles)
    seen.format = bare_suffix(path).removeprefix(".") if annotated is None else annotated.format
    seen.summary = "" if annotated is None else annotated.summary
    if annotated is None and isinstance(kind, Tags) and (facts := column_facts(path, roles)) is not None:
        seen.format = facts[0]
        seen.summary = f"{path} ({facts[0]}): {facts[1]}; {kind.described}."
    return seen


# -- Duplicates, leaks between train and dev, conflicting labels and near duplicates ---------------------------------


@dataclass(frozen=True)
class Repeats:
    """Row indices of the training file."""

    duplicates: np.ndarray
    conflicts: np.ndarray
    leaks: np.ndarray

    @property
    def removable(self) -> np.ndarray:
        """All rows that `--fix` removes, in order."""
        return np.unique(np.concatenate([self.duplicates, self.conflicts, self.leaks]))


def _disagree(names: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mark the rows of groups of equal hashes with two or more labels: bool [rows]."""
    group, first = equal_rows(names)
    differs = np.zeros(group.max(initial=-1) + 1, dtype=bool)
    differs[group[labels != labels[first]]] = True  # from the first of its group
    return differs[group]


def find_repeats(one: FileStatistics, other: FileStatistics | None, labels_may_differ: bool = False) -> Repeats:
    """Find exact repeats, and rows that differ only in case, spacing or punctuation.

    labels_may_differ: a second label of a text is not a conflict (questions with several correct answers).
    """
    train, dev = one.prints, None if other is None else other.prints
    _, first = equal_rows(train.exact)
    _, plain_first = equal_rows(train.plain)
    rows = np.arange(len(train))
    nothing = np.zeros(len(train), dtype=bool)
    conflict = nothing if labels_may_differ else _disagree(train.exact, train.label)
    loose_conflict = nothing if labels_may_differ else _disagree(train.plain, train.label) & ~conflict
    repeated = first != rows
    leak = nothing if dev is None else np.isin(train.exact, dev.exact)
    loose_leak = nothing if dev is None else np.isin(train.plain, dev.plain) & ~leak

    def same_as(row: int) -> str:
        found = int(first[row]) if first[row] != row else int(plain_first[row])
        return f"same as line {train.line[found]}" if found != row else "first occurrence"

    def in_dev(row: int) -> str:
        assert dev is not None and other is not None
        hits = np.flatnonzero((dev.exact == train.exact[row]) | (dev.plain == train.plain[row]))
        return f"same as {Path(other.file).name} line {dev.line[hits[0]]}"

    kinds: dict[str, tuple[np.ndarray, Callable[[int], str]]] = {
        "leaks": (leak, in_dev),
        "leaks-but-for-spelling": (loose_leak, in_dev),
        "label-conflicts": (conflict, same_as),
        "label-conflicts-but-for-spelling": (loose_conflict, same_as),
        "duplicates": (repeated & ~conflict, same_as),
        "duplicates-but-for-spelling": ((plain_first != rows) & ~repeated & ~conflict, same_as),
    }
    for name, (marked, detail) in kinds.items():
        found = np.flatnonzero(marked)
        one.findings.put(name, len(found), ((int(train.line[row]), detail(row)) for row in found[:SHOWN].tolist()))
    if other is not None and dev is not None:
        other.findings.put("dev-duplicates", len(dev) - len(np.unique(dev.exact)))
    parts = (repeated & ~conflict, conflict, leak | loose_leak)
    return Repeats(*(np.flatnonzero(part) for part in parts))


def find_near(one: FileStatistics, other: FileStatistics | None, reread: Callable[[], Iterator[Item]]) -> None:
    """Find rows whose texts overlap; `reread` reads the rows again: train, then dev."""
    parts = [one.prints] if other is None else [one.prints, other.prints]
    plain, bands = (np.concatenate([getattr(part, name) for part in parts]) for name in ("plain", "bands"))
    pairs, is_truncated = near_pairs(plain, bands)
    wanted = set(np.unique(pairs).tolist())
    rows = {number: item for number, item in enumerate(reread()) if number in wanted} if wanted else {}
    more = f" (the first {MAX_PAIRS:,} candidate pairs were compared)" if is_truncated else ""
    seen: set[int] = set()
    for early, later in pairs.tolist():
        first, second = rows[early], rows[later]
        is_leak = other is not None and early < len(one.prints) <= later
        if later in seen or (later >= len(one.prints) and not is_leak) or not _is_near(first, second):
            continue
        seen.add(later)
        if is_leak and other is not None:
            detail = f"nearly {Path(other.file).name} line {second.line}"
            one.findings.add("near-leaks", first.line, detail, more=more)
        else:
            one.findings.add("near-duplicates", second.line, f"nearly line {first.line}", more=more)


def _is_near(one: Item, other: Item) -> bool:
    if (one.pair is None) != (other.pair is None):
        return False
    is_near = overlap(one.text, other.text) >= NEAR
    return is_near and (one.pair is None or other.pair is None or overlap(one.pair, other.pair) >= NEAR)


# -- HTML report of a data check: findings with locations, classes, lengths ------------------------------------------

_NAMES = {
    Tags: "Entities or tags",
    Questions: "Questions",
    Choices: "Positions of the correct answer",
}


def write_diagnosis(path: Path, diagnosis: Diagnosis, command: str) -> None:
    """Write a self-contained HTML report. command: the command line that ran."""
    problems = diagnosis.num_problems
    every = [one for one in (diagnosis.train, diagnosis.dev) if one is not None]
    rows = [(one.severity, one.count, one.sentence, one.advice) for one in diagnosis.findings]
    blocks: list[Block] = [
        RunMetadata(command),
        Table(("severity", "count", "finding", "fix"), rows, title="Findings"),
    ]
    for finding in diagnosis.findings:
        places = [(Path(place.file).name, place.line, place.detail) for place in finding.places]
        more = finding.count - len(places)
        note = f"and {more:,} more" if more > 0 else ""
        title = finding.name.replace("-", " ").capitalize()
        blocks += [Table(("file", "line", "detail"), places, title=title, note=note)] if places else []
    for one in every:
        facts: dict[str, Any] = {"rows": len(one.prints), "invalid rows": len(one.faults.lines)}
        for name, value in one.lengths.facts().items():
            facts[name] = percent(value) if name.startswith("share") else value
        unit, edges, counts = one.lengths.histogram()
        file = Path(one.file).name
        lengths = Histogram(edges, counts, title=f"Row lengths of {file}", x_label=unit, y_label="rows")
        blocks += [Facts(facts, title=file), lengths]
    if not spec_of(diagnosis.task).has_numbers:
        total = max(sum(diagnosis.shares.values()), 1)
        bars = [
            Bar(name[:60] or "(empty)", count, f"{count:,} ({percent(count / total)})")
            for name, count in diagnosis.shares.most_common(30)
        ]
        blocks.append(Bars(bars, title=_NAMES.get(type(diagnosis.train.kind), "Classes")))
    severities = {finding.severity for finding in diagnosis.findings}
    level: Level = "bad" if problems else "watch" if "warning" in severities else "good"
    worst = [finding.sentence for finding in diagnosis.findings if finding.severity != "note"][:5]
    health = Health(level, worst or ["No finding would harm training."])
    title = headline(diagnosis, " and ".join(Path(one.file).name for one in every))
    write_report(path, Report(f"data for {diagnosis.task}", title, health, [*blocks, NextSteps(next_steps(diagnosis))]))


def headline(diagnosis: Diagnosis, files: str) -> str:
    """Return the result in one sentence."""
    kinds, problems = plural(len(diagnosis.findings), "finding"), diagnosis.num_problems
    found = f"{problems} of {kinds} would harm training or scores" if problems else f"{kinds}, none severe"
    return f"{files}: {found if diagnosis.findings else 'no findings'}."


def next_steps(diagnosis: Diagnosis) -> list[Command]:
    """Return the suggested next commands."""
    train = Path(diagnosis.train.file)
    steps = []
    if len(diagnosis.repeats.removable):
        dev = None if diagnosis.dev is None else diagnosis.dev.file
        about = "write a copy without duplicates, leaks and conflicts"
        fixed = f"{train.stem}.fixed{train.suffix}"
        steps.append(Command.suggest(about, "doctor", path=train, dev=dev, fix=fixed))
    skips = bool(diagnosis.train.faults.lines)
    about = "train on it" + (", skipping invalid rows" if skips else "")
    values = {"model": "MODEL", "train": train, "skip_bad_rows": skips, "output": "runs/a"}
    return [*steps, Command.suggest(about, "finetune", task=diagnosis.task, **values)]


# -- Label errors, by confident learning (Northcutt et al. 2021, arXiv:1911.00068) ------------------------------------
#
# A logistic regression on the features of a frozen encoder gives out-of-fold probabilities. The threshold of a class is
# the mean probability of its own rows. A row is a label issue if the most probable class above its threshold is not the
# given label; issues are ranked by the margin of the other class.

FOLDS = 5


def out_of_fold(features: np.ndarray, labels: np.ndarray, *, folds: int = FOLDS, seed: int = 0) -> np.ndarray:
    """Return out-of-fold probabilities of a logistic regression: float64 [rows, classes].

    features: float [rows, size]; labels: int [rows]. Folds are stratified. Raises InputError if there are fewer than
    two classes, or a class has fewer than two rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise InputError("Finding label errors requires at least two classes with at least two rows each.")
    split = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500))
    shares: np.ndarray = cross_val_predict(model, features, labels, cv=split, method="predict_proba")
    return shares


def find_suspects(shares: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the label issues, int64 [issues], worst first; and all margins, float64 [rows]: the probability of the
    most probable other class minus that of the given label.

    shares: out-of-fold probabilities, float64 [rows, classes]; labels: int [rows].
    """
    rows = np.arange(len(labels))
    limits = np.array([shares[labels == label, label].mean() for label in range(shares.shape[1])])
    claimed = np.where(shares >= limits, shares, -1.0)  # classes above their threshold
    suspects = np.flatnonzero((claimed.max(axis=1) >= 0) & (claimed.argmax(axis=1) != labels))
    others = shares.copy()
    others[rows, labels] = -1.0
    margin = others.max(axis=1) - shares[rows, labels]
    return suspects[np.argsort(-margin[suspects], kind="stable")], margin


def suspect_rows(rows: Sequence[Any], features: np.ndarray, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the label issues, worst first: line, label, likely label, margin and texts.

    Raises InputError if a row has no label, or there are too few classes or rows to compare.
    """
    if any(row.label is None for row in rows):
        raise InputError("Finding label errors requires labeled rows: some rows have no label.")
    names = sorted({row.label for row in rows})
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[row.label] for row in rows])
    shares = out_of_fold(features, labels, seed=seed)
    chosen, margin = find_suspects(shares, labels)
    return [
        {
            "line": rows[row].line,
            "label": rows[row].label,
            "likely": names[shares[row].argmax()],
            "margin": float(margin[row]),
            "text": rows[row].text,
            **({} if rows[row].text_pair is None else {"text_pair": rows[row].text_pair}),
        }
        for row in chosen.tolist()
    ]
