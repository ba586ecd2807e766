"""What is wrong with data, how bad it is, and where: the first few places of each kind, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from ..core.errors import RowError
from ..core.plural import plural

Severity = Literal["problem", "warning", "note"]
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")
SHOWN = 5


class Place(NamedTuple):
    """A line of a file, and a few words on it."""

    file: str
    line: int
    detail: str = ""


@dataclass
class Finding:
    """One kind of fault.

    name: short and fixed; severity: "problem" (training or scores will be wrong), "warning" (likely worse), "note";
    sentence: what it is, its number in it; advice: what to do; places: the first few.
    """

    name: str
    severity: Severity
    sentence: str
    count: int
    advice: str = ""
    places: list[Place] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"places": [place._asdict() for place in self.places]}


class _Count(int):
    """A number that a sentence may ask for with its words, see `Tally.finding`."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return plural(int(self), one, many)


class Tally:
    """Counts places of one kind and keeps the first few."""

    def __init__(self) -> None:
        self.count = 0
        self.places: list[Place] = []

    def add(self, file: str, line: int, detail: str = "") -> None:
        """One more."""
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(Place(file, line, detail))

    def finding(self, name: str, severity: Severity, sentence: str, advice: str = "") -> list[Finding]:
        """The finding, or none where nothing was counted.

        `{count:row is|rows are}` in the sentence becomes the number and the words for one or for several.
        """
        if not self.count:
            return []
        return [Finding(name, severity, sentence.format(count=_Count(self.count)), self.count, advice, self.places)]


class Faults(list[RowError]):
    """A list of bad rows that keeps the first of each reason and counts the others, for files of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.by_reason: dict[str, Tally] = {}
        self.lines: list[int] = []

    def __iadd__(self, faults: Iterable[RowError]) -> Faults:  # type: ignore[misc, override]
        for fault in faults:
            self.append(fault)
        return self

    def append(self, fault: RowError) -> None:
        """Count a bad row under its reason, the numbers in it left out."""
        if not self.lines or self.lines[-1] != fault.line:
            self.lines.append(fault.line)
        column = f"column '{fault.column}' " if fault.column else ""
        self.by_reason.setdefault(_kind(fault.reason), Tally()).add(fault.file, fault.line, column + fault.reason)

    def findings(self) -> list[Finding]:
        """One for each reason."""
        return [
            finding
            for reason, tally in self.by_reason.items()
            for finding in tally.finding(
                "unreadable-rows",
                "problem",
                f"{{count:row|rows}} cannot be used: {reason.replace('{', '(').replace('}', ')')}.",
                "Mend them, or train with --skip-bad-rows.",
            )
        ]


_REASONS: Mapping[str, str] = {
    "valid UTF-8": "bytes that are not UTF-8 (another encoding in the file)",
    "NUL": "a NUL character",
    "text is empty": "the text is empty",
    "question is empty": "the question is empty",
    "context is empty": "the context is empty",
    "line is blank": "the line is blank",
    "is not in its context": "an answer is not in its context where it is said to be",
    "beyond the end of its context": "an answer is not in its context where it is said to be",
    "not valid JSON": "no valid JSON",
    "was used before": "an id was used before",
    "choices, and": "another number of choices than the others",
    "columns, not": "another number of columns than the first row",
    "column, not": "another number of columns than the first row",
    "is missing": "a part is missing",
    "are missing": "a part is missing",
    "none of the": "the label is none of the choices",
}


def _kind(reason: str) -> str:
    return next((words for sign, words in _REASONS.items() if sign in reason), "other faults")


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst kind first, then the most frequent."""
    return sorted(findings, key=lambda finding: (ORDER.index(finding.severity), -finding.count))
