"""Reads files of any task as one stream of texts, label and line. Invalid rows are counted and skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..core.errors import RowError
from ..core.util import plural
from ..text.readers.choices import ChoiceRow
from ..text.readers.squad import Question
from ..text.readers.tables import Reader, Row
from ..text.readers.tagged import Sentence

# -- Findings about a data set: severity, count and the first few locations ------------------------------------------


Severity = Literal["problem", "warning", "note"]
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")
SHOWN = 5


class SourceLocation(NamedTuple):
    """A line of a file and a short detail."""

    file: str
    line: int
    detail: str = ""


@dataclass
class Finding:
    """One kind of defect.

    name: stable identifier; severity: "problem" (training or scores will be wrong), "warning" (probably worse) or
    "note"; sentence: description with the count; advice: how to fix it; places: the first few locations.
    """

    name: str
    severity: Severity
    sentence: str
    count: int
    advice: str = ""
    places: list[SourceLocation] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return asdict(self) | {"places": [place._asdict() for place in self.places]}


class _Count(int):
    """A count whose format spec is `singular|plural`, see `FindingCounter.finding`."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return plural(int(self), one, many)


class FindingCounter:
    """Counts the occurrences of one finding and stores the first few locations."""

    def __init__(self) -> None:
        self.count = 0
        self.places: list[SourceLocation] = []

    def add(self, file: str, line: int, detail: str = "") -> None:
        """Count one occurrence."""
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(SourceLocation(file, line, detail))

    def finding(self, name: str, severity: Severity, sentence: str, advice: str = "") -> list[Finding]:
        """Return the finding in a list, which is empty if nothing was counted.

        `{count:row is|rows are}` in the sentence is replaced by the number and the singular or plural form.
        """
        if not self.count:
            return []
        return [Finding(name, severity, sentence.format(count=_Count(self.count)), self.count, advice, self.places)]


class Faults(list[RowError]):
    """A list of invalid rows that stores the first few of each reason and counts the rest, in bounded memory."""

    def __init__(self) -> None:
        super().__init__()
        self.by_reason: dict[str, FindingCounter] = {}
        self.lines: list[int] = []

    def __iadd__(self, faults: Iterable[RowError]) -> Faults:  # type: ignore[misc, override]  # it takes an iterator
        for fault in faults:
            self.append(fault)
        return self

    def append(self, fault: RowError) -> None:
        """Count an invalid row under the category of its reason."""
        if not self.lines or self.lines[-1] != fault.line:
            self.lines.append(fault.line)
        column = f"column '{fault.column}' " if fault.column else ""
        self.by_reason.setdefault(_kind(fault.reason), FindingCounter()).add(
            fault.file, fault.line, column + fault.reason
        )

    def findings(self) -> list[Finding]:
        """Return one finding per reason."""
        return [
            finding
            for reason, tally in self.by_reason.items()
            for finding in tally.finding(
                "unreadable-rows",
                "problem",
                f"{{count:row|rows}} cannot be used: {reason.replace('{', '(').replace('}', ')')}.",
                "Fix them, or train with --skip-bad-rows.",
            )
        ]


_REASONS: Mapping[str, str] = {
    "valid UTF-8": "bytes that are not UTF-8 (another encoding in the file)",
    "NUL": "a NUL character",
    "text is empty": "the text is empty",
    "question is empty": "the question is empty",
    "context is empty": "the context is empty",
    "line is blank": "the line is blank",
    "is not in its context": "an answer is not in its context at the given offset",
    "beyond the end of its context": "an answer is not in its context at the given offset",
    "not valid JSON": "not valid JSON",
    "was used before": "an id is used twice",
    "choices, and": "the number of choices differs from the other rows",
    "columns, not": "the number of columns differs from the first row",
    "column, not": "the number of columns differs from the first row",
    "is missing": "a field is missing",
    "are missing": "a field is missing",
    "none of the": "the label is not one of the choices",
}


def _kind(reason: str) -> str:
    return next((words for fragment, words in _REASONS.items() if fragment in reason), "other errors")


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, then by count."""
    return sorted(findings, key=lambda finding: (ORDER.index(finding.severity), -finding.count))


class Item(NamedTuple):
    """A row of any task. label: as one string, or None; row: the row of the task's reader."""

    text: str
    pair: str | None
    label: str | None
    line: int
    row: Any


def read_items(path: Path, reader: Reader, columns: Mapping[str, str], faults: Faults) -> Iterator[Item]:
    """Yield the valid rows and add invalid ones to `faults`. Raises the errors of the reader."""
    for row in reader.scan(path, columns, faults):
        yield _ITEMS.get(type(row), _of_row)(row)


def _of_row(row: Row) -> Item:
    return Item(row.text, row.text_pair, row.label, row.line, row)


def _of_question(row: Question) -> Item:
    answers = None if row.answers is None else "|".join(sorted(answer.text for answer in row.answers))
    return Item(row.question, row.context, answers, row.line, row)


def _of_sentence(row: Sentence) -> Item:
    return Item(row.text, None, " ".join(row.tags or ()), row.line, row)


def _of_choice(row: ChoiceRow) -> Item:
    label = None if row.label is None else row.choices[row.label]
    return Item(f"{row.context} {row.question}".strip(), " ".join(sorted(row.choices)), label, row.line, row)


_ITEMS: dict[type, Callable[[Any], Item]] = {Question: _of_question, Sentence: _of_sentence, ChoiceRow: _of_choice}
