"""Rows that say the same: duplicates, leaks from dev into train, labels that disagree, and rows that nearly repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.plural import plural
from .findings import Finding, Severity, Tally
from .prints import BANDS, NEAR, Prints, overlap
from .rows import Item

MOST_PAIRS = 100_000  # of near duplicates that are looked at; a file with more is told so


@dataclass(frozen=True)
class Repeats:
    """Row numbers of train. first_of: of each duplicate the row that it repeats."""

    duplicates: np.ndarray
    first_of: np.ndarray
    conflicts: np.ndarray
    leaks: np.ndarray

    @property
    def removable(self) -> np.ndarray:
        """All that `--fix` leaves out, in order."""
        return np.unique(np.concatenate([self.duplicates, self.conflicts, self.leaks]))


def _groups(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its group of equal names, and the first row of that group: int64 [rows]."""
    _, first, group = np.unique(names, return_index=True, return_inverse=True)
    return group, first[group]


def _disagree(names: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows of groups of equal names that have two labels or more: bool [rows]."""
    group, first = _groups(names)
    differs = np.zeros(group.max(initial=-1) + 1, dtype=bool)
    differs[group[labels != labels[first]]] = True  # from the first of its group
    return differs[group]


def find_repeats(
    train: Prints, dev: Prints | None, labels_may_differ: bool = False
) -> tuple[Repeats, dict[str, np.ndarray]]:
    """What repeats exactly, and the rows that are the same but for case, spacing and punctuation, by kind.

    labels_may_differ: a second label of one text is no conflict (questions with several right answers).
    """
    _, first = _groups(train.exact)
    _, plain_first = _groups(train.plain)
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
    train: Prints,
    dev: Prints | None,
    train_file: str,
    dev_file: str | None,
    found: Repeats,
    kinds: dict[str, np.ndarray],
) -> list[Finding]:
    """Everything of `find_repeats` in words."""

    def report(
        name: str, severity: Severity, rows: np.ndarray, sentence: str, advice: str, detail: Callable[[int], str]
    ) -> list[Finding]:
        tally = Tally()
        for row in rows[:5].tolist():
            tally.add(train_file, int(train.line[row]), detail(row))
        tally.count = len(rows)
        return tally.finding(name, severity, sentence, advice)

    _, first = _groups(train.exact)
    _, plain_first = _groups(train.plain)

    def same_as(row: int) -> str:
        other = int(first[row]) if first[row] != row else int(plain_first[row])
        return f"as line {train.line[other]}" if other != row else "the first of them"

    def in_dev(row: int) -> str:
        assert dev is not None
        hits = np.flatnonzero((dev.exact == train.exact[row]) | (dev.plain == train.plain[row]))
        return f"as {Path(dev_file or '').name} line {dev.line[hits[0]]}"

    own = "Leave them out: --fix OUT writes a copy without them."
    result = report(
        "leaks",
        "problem",
        kinds["leak"],
        "{count:training row stands|training rows stand} in the dev file too, so dev scores flatter.",
        own,
        in_dev,
    )
    result += report(
        "leaks-but-for-spelling", "problem", kinds["loose-leak"],
        "{count:training row stands|training rows stand} in the dev file but for case, spacing or punctuation.",
        own, in_dev,
    )  # fmt: skip
    result += report(
        "label-conflicts", "problem", found.conflicts,
        "{count:row has|rows have} a text that has another label elsewhere.",
        "Decide which label is right; --fix OUT leaves all of them out.", same_as,
    )  # fmt: skip
    result += report(
        "label-conflicts-but-for-spelling", "warning", kinds["loose-conflict"],
        "{count:row has|rows have} another label than a text that differs in case, spacing or punctuation alone.",
        "Look at them: one of the labels may be wrong.", same_as,
    )  # fmt: skip
    result += report(
        "duplicates",
        "warning",
        found.duplicates,
        "{count:row repeats|rows repeat} an earlier row, label and all.",
        own,
        same_as,
    )
    result += report(
        "duplicates-but-for-spelling", "note", kinds["loose"],
        "{count:row repeats|rows repeat} an earlier row but for case, spacing or punctuation.", "", same_as,
    )  # fmt: skip
    if dev is not None:
        repeated = len(dev) - len(np.unique(dev.exact))
        if repeated:
            rows = plural(repeated, "dev row repeats", "dev rows repeat")
            sentence = f"{rows} an earlier dev row: counted twice in every score."
            result.append(Finding("dev-duplicates", "note", sentence, repeated))
    return result


# -- near duplicates ---------------------------------------------------------------------------------------


def near_pairs(plain: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, bool]:
    """Pairs of rows (first, later) that share a band and are not the same but for spelling: int64 [pairs, 2].

    plain [rows], bands [rows, BANDS]: as in Prints, of one file or two end to end. The second value says whether there
    were more than MOST_PAIRS.
    """
    _, first = _groups(plain)
    kept = np.flatnonzero(first == np.arange(len(plain)))
    found: list[np.ndarray] = []
    for band in range(BANDS):
        names = bands[kept, band]
        order = np.argsort(names, kind="stable")
        names, rows = names[order], kept[order]
        same = np.flatnonzero((names[1:] == names[:-1]) & (names[1:] != 0))
        starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        begin = rows[starts[np.searchsorted(starts, same, side="right") - 1]]
        found += [np.stack([rows[same], rows[same + 1]], axis=1), np.stack([begin, rows[same + 1]], axis=1)]
    pairs = np.unique(np.concatenate(found), axis=0) if found else np.zeros((0, 2), dtype=np.int64)
    return pairs[:MOST_PAIRS], len(pairs) > MOST_PAIRS


def near_findings(
    pairs: np.ndarray, is_cut: bool, num_train: int, again: Callable[[], Iterator[Item]], files: tuple[str, str | None]
) -> list[Finding]:
    """Pairs whose texts truly overlap, read once more from the files (`again`: train, then dev)."""
    wanted = set(np.unique(pairs).tolist())
    held = {number: item for number, item in enumerate(again()) if number in wanted} if wanted else {}
    repeats, leaks = Tally(), Tally()
    seen: set[int] = set()
    for first, later in pairs.tolist():
        one, other = held[first], held[later]
        if later in seen or not _is_near(one, other):
            continue
        if later < num_train:
            seen.add(later)
            repeats.add(files[0], other.line, f"nearly line {one.line}")
        elif first < num_train:
            seen.add(later)
            leaks.add(files[0], one.line, f"nearly {Path(files[1] or '').name} line {other.line}")
    more = f" (the first {MOST_PAIRS:,} pairs that may be near were looked at)" if is_cut else ""
    shared = f"{NEAR:.0%} of their pairs of neighbouring words"
    return [
        *leaks.finding(
            "near-leaks", "warning",
            f"{{count:dev row nearly repeats|dev rows nearly repeat}} a training row: {shared} are the same{more}.",
            "Look at them: dev scores may flatter.",
        ),
        *repeats.finding(
            "near-duplicates", "note",
            f"{{count:row nearly repeats|rows nearly repeat}} an earlier row: {shared} are the same{more}.",
        ),
    ]  # fmt: skip


def _is_near(one: Item, other: Item) -> bool:
    """Whether both texts of a pair overlap enough."""
    if (one.pair is None) != (other.pair is None):
        return False
    return overlap(one.text, other.text) >= NEAR and (
        one.pair is None or other.pair is None or overlap(one.pair, other.pair) >= NEAR
    )
