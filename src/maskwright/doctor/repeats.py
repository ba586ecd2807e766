"""Finds duplicates, train-dev leaks, conflicting labels and near duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.util import plural
from ..text.fingerprints import MAX_PAIRS, NEAR, RowFingerprints, equal_rows, overlap
from .rows import Finding, FindingCounter, Item, Severity


@dataclass(frozen=True)
class Repeats:
    """Row indices of the training file. first_of: for each duplicate, the row that it repeats."""

    duplicates: np.ndarray
    first_of: np.ndarray
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


def find_repeats(
    train: RowFingerprints, dev: RowFingerprints | None, labels_may_differ: bool = False
) -> tuple[Repeats, dict[str, np.ndarray]]:
    """Find exact repeats, and rows that differ only in case, spacing or punctuation, by kind.

    labels_may_differ: a second label of a text is not a conflict (questions with several correct answers).
    """
    _, first = equal_rows(train.exact)
    _, plain_first = equal_rows(train.plain)
    rows = np.arange(len(train))
    nothing = np.zeros(len(train), dtype=bool)
    conflict = nothing if labels_may_differ else _disagree(train.exact, train.label)
    loose_conflict = nothing if labels_may_differ else _disagree(train.plain, train.label) & ~conflict
    repeated = first != rows
    duplicate = repeated & ~conflict
    loose = (plain_first != rows) & ~repeated & ~conflict
    leak = nothing if dev is None else np.isin(train.exact, dev.exact)
    loose_leak = nothing if dev is None else np.isin(train.plain, dev.plain) & ~leak
    duplicates, conflicts = np.flatnonzero(duplicate), np.flatnonzero(conflict)
    found = Repeats(duplicates, first[duplicates], conflicts, np.flatnonzero(leak | loose_leak))
    kinds = {"leak": leak, "loose-leak": loose_leak, "loose": loose, "loose-conflict": loose_conflict}
    return found, {name: np.flatnonzero(part) for name, part in kinds.items()}


def repeat_findings(
    train: RowFingerprints,
    dev: RowFingerprints | None,
    train_file: str,
    dev_file: str | None,
    found: Repeats,
    kinds: dict[str, np.ndarray],
) -> list[Finding]:
    """Return the findings of `find_repeats`."""

    def report(
        name: str, severity: Severity, rows: np.ndarray, sentence: str, advice: str, detail: Callable[[int], str]
    ) -> list[Finding]:
        tally = FindingCounter()
        for row in rows[:5].tolist():
            tally.add(train_file, int(train.line[row]), detail(row))
        tally.count = len(rows)
        return tally.finding(name, severity, sentence, advice)

    _, first = equal_rows(train.exact)
    _, plain_first = equal_rows(train.plain)

    def same_as(row: int) -> str:
        other = int(first[row]) if first[row] != row else int(plain_first[row])
        return f"same as line {train.line[other]}" if other != row else "first occurrence"

    def in_dev(row: int) -> str:
        assert dev is not None
        hits = np.flatnonzero((dev.exact == train.exact[row]) | (dev.plain == train.plain[row]))
        return f"same as {Path(dev_file or '').name} line {dev.line[hits[0]]}"

    fix = "Remove them: --fix OUT writes a copy without them."
    result = report(
        "leaks",
        "problem",
        kinds["leak"],
        "{count:training row is|training rows are} also in the dev file, so dev scores are too high.",
        fix,
        in_dev,
    )
    result += report(
        "leaks-but-for-spelling", "problem", kinds["loose-leak"],
        "{count:training row is|training rows are} also in the dev file, except for case, spacing or punctuation.",
        fix, in_dev,
    )  # fmt: skip
    result += report(
        "label-conflicts", "problem", found.conflicts,
        "{count:row has|rows have} a text that occurs elsewhere with another label.",
        "Decide which label is correct; --fix OUT removes all of them.", same_as,
    )  # fmt: skip
    result += report(
        "label-conflicts-but-for-spelling", "warning", kinds["loose-conflict"],
        "{count:row has|rows have} another label than a text that differs only in case, spacing or punctuation.",
        "Review them: one of the labels may be wrong.", same_as,
    )  # fmt: skip
    result += report(
        "duplicates",
        "warning",
        found.duplicates,
        "{count:row repeats|rows repeat} an earlier row, including its label.",
        fix,
        same_as,
    )
    result += report(
        "duplicates-but-for-spelling", "note", kinds["loose"],
        "{count:row repeats|rows repeat} an earlier row, except for case, spacing or punctuation.", "", same_as,
    )  # fmt: skip
    if dev is not None:
        repeated = len(dev) - len(np.unique(dev.exact))
        if repeated:
            rows = plural(repeated, "dev example repeats", "dev examples repeat")
            sentence = f"{rows} an earlier dev example and counts twice in every score."
            result.append(Finding("dev-duplicates", "note", sentence, repeated))
    return result


# -- near duplicates ---------------------------------------------------------------------------------------


def near_findings(
    pairs: np.ndarray,
    is_truncated: bool,
    num_train: int,
    reread: Callable[[], Iterator[Item]],
    files: tuple[str, str | None],
) -> list[Finding]:
    """Return findings for pairs whose texts overlap; `reread` reads the rows again: train, then dev."""
    wanted = set(np.unique(pairs).tolist())
    rows = {number: item for number, item in enumerate(reread()) if number in wanted} if wanted else {}
    repeats, leaks = FindingCounter(), FindingCounter()
    seen: set[int] = set()
    for first, later in pairs.tolist():
        one, other = rows[first], rows[later]
        if later in seen or not _is_near(one, other):
            continue
        if later < num_train:
            seen.add(later)
            repeats.add(files[0], other.line, f"nearly line {one.line}")
        elif first < num_train:
            seen.add(later)
            leaks.add(files[0], one.line, f"nearly {Path(files[1] or '').name} line {other.line}")
    more = f" (the first {MAX_PAIRS:,} candidate pairs were compared)" if is_truncated else ""
    shared = f"at least {NEAR:.0%} of their word bigrams"
    return [
        *leaks.finding(
            "near-leaks", "warning",
            "{count:dev example nearly repeats|dev examples nearly repeat} a training row: "
            f"{shared} are the same{more}.",
            "Review them: dev scores may be too high.",
        ),
        *repeats.finding(
            "near-duplicates", "note",
            f"{{count:row nearly repeats|rows nearly repeat}} an earlier row: {shared} are the same{more}.",
        ),
    ]  # fmt: skip


def _is_near(one: Item, other: Item) -> bool:
    """Return whether the texts (and paired texts) of two rows overlap enough."""
    if (one.pair is None) != (other.pair is None):
        return False
    return overlap(one.text, other.text) >= NEAR and (
        one.pair is None or other.pair is None or overlap(one.pair, other.pair) >= NEAR
    )
