"""Checks of texts, labels, tags, questions and choices: what is counted, and what it is called."""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..core.errors import RowError
from ..core.util import plural
from ..tasks.tagging.schemes import MISSING_TAGS, OUTSIDE, Notation, Reading, find_notation, repair, spans, split_tag
from ..text.fingerprints import NEAR, hash_text
from ..text.formats.cells import LABEL_SEPARATOR
from ..text.readers.choices import ChoiceRow
from ..text.readers.squad import Question
from ..text.readers.tables import Reader
from ..text.words import MISSING, Sentence

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Findings: one kind of defect each, with its count and the first few places --------------------------------------

Severity = Literal["problem", "warning", "note"]  # training or scores will be wrong; probably worse; information
ORDER: tuple[Severity, ...] = ("problem", "warning", "note")
SHOWN = 5
FEW = 10  # a class with fewer rows is reported
LONG_ANSWER = 30  # words
MAX_LABELS = 10_000  # more distinct values are numbers or not labels
UTF8 = "Export the file again as UTF-8."
FIX = "Remove them: --fix OUT writes a copy without them."
NEARLY = f"at least {NEAR:.0%} of their word bigrams are the same"

# Severity, sentence and advice by name; what follows a slash in the name only tells its sentences apart. In a sentence,
# {count:row is|rows are} is the number with the singular or plural.
RULES: dict[str, tuple[Severity, str, str]] = {
    "unreadable-rows": (
        "problem", "{count:row|rows} cannot be used: {reason}.", "Fix them, or train with --skip-bad-rows."
    ),
    "mojibake": ("warning", "{count:text looks|texts look} like UTF-8 decoded with another encoding.", UTF8),
    "lost-characters": (
        "warning", "{count:text contains|texts contain} U+FFFD, the replacement for undecodable characters.", UTF8
    ),
    "control-characters": ("warning", "{count:text contains|texts contain} control characters.", ""),
    "hidden-characters": ("note", "{count:text contains|texts contain} invisible characters.", ""),
    "markup": ("note", "{count:text contains|texts contain} HTML markup.", ""),
    "unicode-forms": ("note", "{count:text spells|texts spell} accents as combining characters (not NFC).", ""),
    "long-rows": (
        "warning", "{count:row is|rows are} longer than {limit:,} {unit}; most models truncate them.",
        "Split them, or raise --max-length.",
    ),
    "constant-column": (
        "problem", "The column of the {column} is the same in every row.", "Set the column mapping with --columns."
    ),
    "no-label": ("problem", "{count:row has|rows have} no label.", "Label them, or skip them with --skip-bad-rows."),
    "no-number": ("problem", "{count:label is not a finite number|labels are not finite numbers}.", ""),
    "constant-label/number": ("problem", "Every label is {value:g}: there is nothing to learn.", ""),
    "constant-label/class": ("problem", "Every row has the label '{value}': there is nothing to learn.", ""),
    "constant-label/tag": ("problem", "Every word has the tag '{value}': there is nothing to learn.", ""),
    "constant-label/question": ("problem", "No question has an answer: there is nothing to learn.", ""),
    "far-off-label": (
        "warning", "Labels range from {low:g} to {high:g}, over 6 standard deviations ({deviation:.3g}) off the mean.",
        "Check these labels for typing errors.",
    ),
    "too-many-labels": (
        "problem", f"There are more than {MAX_LABELS:,} different labels.", "Check the label column; see --columns."
    ),
    "few-rows/class": (
        "warning", f"{{count:class has|classes have}} fewer than {FEW} rows, of {{classes:,}}.",
        "Add rows, or merge classes.",
    ),
    "few-rows/tag": (
        "warning", f"{{count:tag occurs|tags occur}} fewer than {FEW} times: {{listed}}.",
        "Add sentences, or merge types.",
    ),
    "few-rows/entity": (
        "warning", f"{{count:type of entity occurs|types of entity occur}} fewer than {FEW} times: {{listed}}.",
        "Add sentences, or merge types.",
    ),
    "uneven-classes": (
        "note", "The most frequent class has {count:row|rows} and the rarest {least:,}.", "See --class-weight balanced."
    ),
    "labels-alike": (
        "problem", "{count:class is|classes are} spelled in several ways.", "Use one spelling per label."
    ),
    "unknown-dev-labels/class": (
        "problem", "{count:dev row has|dev rows have} a label that training does not have.",
        "Fix them, or move such rows to training.",
    ),
    "unknown-dev-labels/tag": (
        "problem", "{count:dev word has|dev words have} a tag that training does not have.",
        "Fix them, or move such sentences to training.",
    ),
    "unknown-dev-labels/question": (
        "problem", "{count:dev question has|dev questions have} no answer, but every training question has one.", ""
    ),
    "unseen-classes": (
        "note", "{count:class of training has|classes of training have} no dev row: {named}.", ""
    ),
    "long-answers": (
        "warning", f"{{count:question has|questions have}} an answer of more than {LONG_ANSWER} words; predicted spans "
        "are never that long.", "",
    ),
    "shared-contexts": (
        "warning", "{count:dev context is|dev contexts are} also in training, so dev scores are too high.",
        "Split by context.",
    ),
    "same-choices": (
        "problem", "{count:row has|rows have} a duplicate choice, which is both correct and incorrect.", ""
    ),
    "position-bias": (
        "warning", "The correct answer is choice {most} in {share:.0%} of the rows; chance is {even:.0%}.",
        "Shuffle the choices of each row.",
    ),
    "length-bias": ("note", "The longest choice is correct in {share:.0%} of the rows; chance is {even:.0%}.", ""),
    "missing-tags": ("warning", "{count:word has|words have} no tag.", "Training skips such words."),
    "tag-scheme": ("note", "The tags are {written}.", ""),
    "tags-outside-scheme": ("problem", "{count:tag is|tags are} not valid in {scheme}.", "Fix them."),
    "tag-spelling": (
        "warning", "{count:tag does|tags do} not follow the {scheme} scheme.", "Training repairs them."
    ),
    "empty-sentences": ("note", "{count:sentence has|sentences have} no entity ({share:.0%}).", ""),
    "empty-sentences/most": ("warning", "{count:sentence has|sentences have} no entity ({share:.0%}).", ""),
    "leaks": (
        "problem", "{count:training row is|training rows are} also in the dev file, so dev scores are too high.", FIX
    ),
    "leaks-but-for-spelling": (
        "problem", "{count:training row is|training rows are} also in the dev file, except for case, spacing or "
        "punctuation.", FIX,
    ),
    "label-conflicts": (
        "problem", "{count:row has|rows have} a text that occurs elsewhere with another label.",
        "Decide which label is correct; --fix OUT removes all of them.",
    ),
    "label-conflicts-but-for-spelling": (
        "warning", "{count:row has|rows have} another label than a text that differs only in case, spacing or "
        "punctuation.", "Review them: one of the labels may be wrong.",
    ),
    "duplicates": ("warning", "{count:row repeats|rows repeat} an earlier row, including its label.", FIX),
    "duplicates-but-for-spelling": (
        "note", "{count:row repeats|rows repeat} an earlier row, except for case, spacing or punctuation.", ""
    ),
    "dev-duplicates": (
        "note", "{count:dev example repeats|dev examples repeat} an earlier dev example and count twice in every "
        "score.", "",
    ),
    "near-leaks": (
        "warning", f"{{count:dev example nearly repeats|dev examples nearly repeat}} a training row: {NEARLY}{{more}}.",
        "Review them: dev scores may be too high.",
    ),
    "near-duplicates": (
        "note", f"{{count:row nearly repeats|rows nearly repeat}} an earlier row: {NEARLY}{{more}}.", ""
    ),
}  # fmt: skip


class SourceLocation(NamedTuple):
    """A line of a file and a short detail."""

    file: str
    line: int
    detail: str = ""


@dataclass
class Finding:
    """One kind of defect: a stable name, the sentence with its count, how to fix it, and the first few places."""

    name: str
    severity: Severity
    sentence: str
    count: int
    advice: str = ""
    places: list[SourceLocation] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"places": [place._asdict() for place in self.places]}


class _Count(int):
    """A count whose format spec is `singular|plural`."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return plural(int(self), one, many)


class Findings:
    """The findings of one file by name: counts, and the first few places."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[str, tuple[str, int, list[SourceLocation], dict[str, Any]]] = {}

    def add(self, name: str, line: int, detail: str = "", *, key: str = "", **words: Any) -> None:
        """Count one occurrence. key: tells findings of one name apart; words: of the sentence."""
        _, count, places, words = self._found.get(key or name, (name, 0, [], words))
        if count < SHOWN:
            places.append(SourceLocation(self.file, line, detail))
        self._found[key or name] = name, count + 1, places, words

    def put(self, name: str, count: int, places: Iterable[tuple[int, str]] = (), **words: Any) -> None:
        """Record a finding with its count; the first of `places` (line, detail) are kept. Nothing for a count of 0."""
        if count:
            shown = [SourceLocation(self.file, *place) for _, place in zip(range(SHOWN), places, strict=False)]
            self._found[f"{name} {words.get('column', '')}"] = name, count, shown, words

    def listed(self) -> list[Finding]:
        """Return the findings in the order in which they were made."""
        return [
            Finding(name.partition("/")[0], severity, text.format(count=_Count(count), **words), count, advice, places)
            for name, count, places, words in self._found.values()
            for severity, text, advice in [RULES[name]]
        ]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, then by count."""
    return sorted(findings, key=lambda finding: (ORDER.index(finding.severity), -finding.count))


# -- Rows of any task as texts, label and line; invalid rows are counted and skipped ---------------------------------


REASONS: Mapping[str, str] = {
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


class Faults(list[RowError]):
    """A list of invalid rows that keeps none: it counts them by reason, in bounded memory."""

    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self.findings, self.lines = findings, list[int]()

    def __iadd__(self, faults: Iterable[RowError]) -> Faults:  # type: ignore[misc, override]  # it takes an iterator
        for fault in faults:
            self.append(fault)
        return self

    def append(self, fault: RowError) -> None:
        if not self.lines or self.lines[-1] != fault.line:
            self.lines.append(fault.line)
        detail = (f"column '{fault.column}' " if fault.column else "") + fault.reason
        reason = next((words for part, words in REASONS.items() if part in fault.reason), "other errors")
        self.findings.add("unreadable-rows", fault.line, detail, key=reason, reason=reason)


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
        match row:
            case Question():
                answers = None if row.answers is None else "|".join(sorted(answer.text for answer in row.answers))
                yield Item(row.question, row.context, answers, row.line, row)
            case Sentence():
                yield Item(row.text, None, " ".join(row.tags or ()), row.line, row)
            case ChoiceRow():
                label = None if row.label is None else row.choices[row.label]
                text = f"{row.context} {row.question}".strip()
                yield Item(text, " ".join(sorted(row.choices)), label, row.line, row)
            case _:
                yield Item(row.text, row.text_pair, row.label, row.line, row)


# -- Checks of texts: damaged characters, lengths and constant columns -----------------------------------------------

CUTS = (128, 256, 512)
_BLOCK = 1024
_LONG_WORDS = 2000
_MARKUP = re.compile(r"&(?:amp|lt|gt|quot|nbsp|#\d+);|<(?:br|p|div|span|a)\b[^>]*>", re.IGNORECASE)
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CHARACTERS = {  # in texts that are not ASCII
    "mojibake": re.compile(  # UTF-8 that was read as Latin-1 or Windows-1252, once
        "\u00c3[\u0080-\u00bf\u0192\u02c6\u02dc\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u2018-\u203a\u20ac\u2122]"
        "|\u00c2[\u00a0-\u00bf]|\u00e2\u20ac|\u00ef\u00bb\u00bf|\u00f0\u0178"
    ),
    "lost-characters": re.compile("\ufffd"),
    "hidden-characters": re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]"),
}


def see_characters(findings: Findings, item: Item) -> None:
    """Count a text with damaged or unusual characters."""
    text = item.text if item.pair is None else f"{item.text} {item.pair}"
    searched = {"control-characters": _CONTROL}
    if "&" in text or "<" in text:
        searched["markup"] = _MARKUP
    if not text.isascii():
        searched |= _CHARACTERS
        if not unicodedata.is_normalized("NFC", text):
            findings.add("unicode-forms", item.line)
    for name, pattern in searched.items():
        if found := pattern.search(text):
            codes = " ".join(f"U+{ord(character):04X}" for character in found[0][:3])
            shown = found[0] if found[0].isprintable() else codes
            findings.add(name, item.line, f"at character {found.start() + 1}: {shown}")


class Lengths:
    """Row lengths of a file in words, and in tokens if a tokenizer is given."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self.tokenizer = tokenizer
        self.words, self.tokens, self.lines = array("I"), array("I"), array("Q")
        self._waiting: list[Item] = []

    def see(self, item: Item, num_words: int) -> None:
        self.words.append(num_words)
        self.lines.append(item.line)
        if self.tokenizer is not None:
            self._waiting.append(item)
            if len(self._waiting) == _BLOCK:
                self.close()

    def close(self) -> None:
        """Tokenize the waiting rows."""
        from ..text.tokenizers.encoding import TextCounts

        if self.tokenizer is not None and self._waiting:
            texts = [item.text if item.pair is None else (item.text, item.pair) for item in self._waiting]
            ids, _ = self.tokenizer.encode_ids(texts, None, counts=TextCounts())
            self.tokens.extend(len(row) for row in ids)
            self._waiting = []

    def facts(self) -> dict[str, float]:
        """Return median, 95th percentile and maximum, and the fraction of rows truncated at common lengths."""
        unit, lengths = self._unit()
        if not len(lengths):
            return {}
        middle, high = np.quantile(lengths, [0.5, 0.95])
        facts = {f"median {unit}": float(middle), f"95 % {unit}": float(high), f"most {unit}": float(lengths.max())}
        cut = {f"share cut at {size} tokens": float((lengths > size).mean()) for size in CUTS} if self.tokens else {}
        return facts | cut

    def histogram(self, bins: int = 30) -> tuple[str, list[float], list[int]]:
        """Return unit, edges [bins + 1] and counts [bins]."""
        unit, lengths = self._unit()
        if not len(lengths):
            return unit, [], []
        counts, edges = np.histogram(lengths, bins=min(bins, max(int(lengths.max()), 1)))
        return unit, edges.tolist(), counts.tolist()

    def find(self, findings: Findings) -> None:
        unit, lengths = self._unit()
        limit = 512 if self.tokens else _LONG_WORDS
        rows = np.flatnonzero(lengths > limit)
        places = ((int(self.lines[row]), f"{int(lengths[row]):,} {unit}") for row in rows)
        findings.put("long-rows", len(rows), places, limit=limit, unit=unit)

    def _unit(self) -> tuple[str, np.ndarray]:
        chosen = self.tokens if self.tokens else self.words
        return ("tokens" if self.tokens else "words"), np.frombuffer(chosen, dtype=np.uint32)


class Constants:
    """Finds columns with the same value in every row."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.first: dict[str, str] = {}

    def see(self, item: Item) -> None:
        cells = {"text": item.text, "text pair": item.pair}
        if not self.num_rows:
            self.first = {name: value for name, value in cells.items() if value is not None}
        self.num_rows += 1
        for name in [name for name, value in self.first.items() if value != cells[name]]:
            del self.first[name]

    def find(self, findings: Findings) -> None:
        for name in self.first if self.num_rows > 1 else ():
            findings.put("constant-column", self.num_rows, column=name)


# -- Checks of labels by kind of file. `see` takes every row, `find` the whole file, `find_against` its dev file -----


class Labels:
    """Labels of texts, with at most MAX_LABELS distinct ones in memory."""

    _IMBALANCE = 20  # reported ratio of the largest class to the smallest

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}
        self.is_open, self.num_rows, self.num_missing = True, 0, 0
        self.low, self.high, self.total, self.squares, self.num_numbers = math.inf, -math.inf, 0.0, 0.0, 0
        self.has_fraction = False
        self.words: list[tuple[int, str]] = []  # labels that are no numbers: the first lines
        self.num_words = 0

    def see(self, item: Item) -> None:
        self.num_rows += 1
        if item.label is None:
            self.num_missing += 1
            self.findings.add("no-label", item.line)
            return
        for label in item.label.split(LABEL_SEPARATOR) if LABEL_SEPARATOR in item.label else (item.label,):
            if self.is_open:
                self.counts[label] += 1
                self.where.setdefault(label, item.line)
                self.is_open = len(self.counts) <= MAX_LABELS
        try:
            value = float(item.label or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.num_words += 1
            if len(self.words) < SHOWN:
                self.words.append((item.line, f"'{(item.label or '')[:40]}'"))
            return
        self.num_numbers += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total, self.squares = self.total + value, self.squares + value * value
        self.has_fraction = self.has_fraction or value != int(value)

    @property
    def looks_numeric(self) -> bool:
        """Whether the labels are regression targets rather than class names."""
        return self.num_numbers > 0 and not self.num_words and (len(self.counts) > 20 or self.has_fraction)

    def shown(self) -> Counter[str]:
        return self.counts

    def find(self, has_numbers: bool) -> None:
        if self.num_rows and self.num_missing < self.num_rows:
            self._find_in_numbers() if has_numbers else self._find_in_classes()

    def _find_in_numbers(self) -> None:
        put, count = self.findings.put, max(self.num_numbers, 1)
        put("no-number", self.num_words, self.words)
        if self.num_numbers > 1 and self.low == self.high:
            put("constant-label/number", self.num_numbers, value=self.low)
            return
        mean = self.total / count
        deviation = math.sqrt(max(self.squares / count - mean * mean, 0.0))
        if deviation and max(self.high - mean, mean - self.low) > 6 * deviation:
            put("far-off-label", 1, low=self.low, high=self.high, deviation=deviation)

    def _find_in_classes(self) -> None:
        put = self.findings.put
        if len(self.counts) < 2:
            put("constant-label/class", self.num_rows, value=next(iter(self.counts)))
            return
        if not self.is_open:
            put("too-many-labels", MAX_LABELS)
            return
        few = {label: count for label, count in self.counts.items() if count < FEW}
        places = ((self.where[label], f"'{label[:40]}': {plural(count, 'row')}") for label, count in few.items())
        put("few-rows/class", len(few), places, classes=len(self.counts))
        most, least = max(self.counts.values()), min(self.counts.values())
        if most >= self._IMBALANCE * least:
            put("uneven-classes", most, least=least)
        names: dict[str, list[str]] = {}
        for label in self.counts:
            names.setdefault(" ".join(label.casefold().split()), []).append(label)
        same = [group for group in names.values() if len(group) > 1]
        put("labels-alike", len(same), ((self.where[group[1]], " and ".join(map(repr, group))) for group in same))

    def find_against(self, dev: Labels) -> None:
        unknown = [label for label in dev.counts if label not in self.counts]
        unseen = [label for label in self.counts if label not in dev.counts]
        places = ((dev.where[label], f"'{label[:40]}'") for label in unknown)
        dev.findings.put("unknown-dev-labels/class", sum(dev.counts[label] for label in unknown), places)
        named = ", ".join(f"'{label[:30]}'" for label in unseen[:5])
        dev.findings.put("unseen-classes", len(unseen), named=named)


class Questions:
    """Questions of one file: unanswerable ones, lengths of answers, and contexts."""

    def __init__(self, findings: Findings) -> None:
        self.findings, self.num_rows = findings, 0
        self.contexts: dict[int, int] = {}
        self.kinds: Counter[str] = Counter()

    def see(self, item: Item) -> None:
        row: Question = item.row
        self.num_rows += 1
        self.contexts.setdefault(hash_text(row.context), row.line)
        self.kinds["without an answer" if row.is_impossible else "with an answer"] += 1
        longest = next((n for one in row.answers or () if (n := len(one.text.split())) > LONG_ANSWER), 0)
        if longest:
            self.findings.add("long-answers", row.line, f"{longest} words")

    def shown(self) -> Counter[str]:
        return self.kinds

    def find(self, has_numbers: bool) -> None:
        if not self.kinds["with an answer"]:
            self.findings.put("constant-label/question", self.num_rows)

    def find_against(self, dev: Questions) -> None:
        """Record dev contexts that occur in training, and unanswerable dev questions if training has none."""
        shared = [name for name in dev.contexts if name in self.contexts]
        places = ((dev.contexts[name], f"as in train, question {self.contexts[name]}") for name in shared)
        dev.findings.put("shared-contexts", len(shared), places)
        if not self.kinds["without an answer"]:
            dev.findings.put("unknown-dev-labels/question", dev.kinds["without an answer"])


class Choices:
    """Choices of one file: position bias, length bias and duplicates."""

    _SIGNIFICANCE = 0.001  # p-value below which a bias is reported

    def __init__(self, findings: Findings) -> None:
        self.findings, self.num_rows, self.num_choices = findings, 0, 0
        self.positions: Counter[int] = Counter()
        self.longest = 0

    def see(self, item: Item) -> None:
        row: ChoiceRow = item.row
        self.num_rows, self.num_choices = self.num_rows + 1, len(row.choices)
        plain = Counter(" ".join(choice.casefold().split()) for choice in row.choices)
        if len(plain) < len(row.choices):
            self.findings.add("same-choices", row.line, f"'{plain.most_common(1)[0][0][:40]}' twice")
        if row.label is not None:
            self.positions[row.label] += 1
            lengths = [len(choice) for choice in row.choices]
            self.longest += lengths[row.label] == max(lengths) and lengths.count(max(lengths)) == 1

    def shown(self) -> Counter[str]:
        return Counter({f"choice {index}": self.positions[index] for index in range(self.num_choices)})

    def find(self, has_numbers: bool) -> None:
        from scipy.stats import binomtest, chisquare

        counts = [self.positions[index] for index in range(self.num_choices)]
        even, put = 1 / max(self.num_choices, 1), self.findings.put
        if sum(counts) and chisquare(counts).pvalue < self._SIGNIFICANCE:
            most = max(range(len(counts)), key=counts.__getitem__)
            put("position-bias", counts[most], most=most, share=counts[most] / sum(counts), even=even)
        if binomtest(self.longest, self.num_rows, even, alternative="greater").pvalue < self._SIGNIFICANCE:
            put("length-bias", self.longest, share=self.longest / self.num_rows, even=even)

    def find_against(self, dev: Choices) -> None:
        """Record nothing: choices have no names in common."""


class Tags:
    """Tags of one file. The scheme is known only after the last row, so the sentences are stored."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.rows: list[Sentence] = []
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}

    def see(self, item: Item) -> None:
        row: Sentence = item.row
        self.rows.append(row)
        for word, tag in enumerate(row.tags or ()):
            self.counts[tag] += 1
            self.where.setdefault(tag, row.line_of(word))

    @cached_property
    def notation(self) -> Notation | None:
        """Scheme and spelling of the tags; None for plain tags. Ask after the last row."""
        return find_notation(self.counts, [row.tags or () for row in self.rows])

    @property
    def described(self) -> str:
        return f"the tags are {self.notation.description if self.notation else 'plain, without entities'}"

    @cached_property
    def _reading(self) -> Reading:
        assert self.notation is not None
        return Reading(self.notation)

    def read(self, row: Sentence) -> list[str]:
        """Return the tags of a sentence as in `schemes`; what does not fit, as it is."""
        return list(row.tags or ()) if self.notation is None else [self._reading[tag] for tag in row.tags or ()]

    def types(self) -> set[str]:
        """Return the types of entities of the tags, in any case."""
        read = (self.notation.read(tag) for tag in self.counts) if self.notation else ()
        return {split_tag(tag or "")[1].casefold() for tag in read} - {""}

    def shown(self) -> Counter[str]:
        """Count entities by type, or words by tag without a scheme."""
        if self.notation is None:
            return Counter({tag: count for tag, count in self.counts.items() if tag != MISSING})
        return Counter(entity.type for row in self.rows for entity in spans(self.read(row)))

    def find(self, has_numbers: bool) -> None:
        put, notation = self.findings.put, self.notation
        if len(self.counts) < 2:
            put("constant-label/tag", len(self.rows), value=next(iter(self.counts), ""))
            return
        self._find_words()
        rare = {name: count for name, count in self.shown().items() if count < FEW}
        listed = ", ".join(f"{name} {count}" for name, count in sorted(rare.items(), key=lambda pair: pair[1])[:8])
        put("few-rows/tag" if notation is None else "few-rows/entity", len(rare), listed=listed)
        if notation is not None:
            if notation.description != "BIO":
                put("tag-scheme", len(self.rows), written=notation.description)
            empty = sum(all(tag in (OUTSIDE, MISSING) for tag in self.read(row)) for row in self.rows)
            share = empty / len(self.rows)
            put("empty-sentences/most" if share > 0.9 else "empty-sentences", empty, share=share)

    def _find_words(self) -> None:
        add, notation = self.findings.add, self.notation
        marks = (MISSING,) if notation is None else MISSING_TAGS
        for row in self.rows:
            given, tags = row.tags or (), self.read(row)
            repaired, changed = (tags, False) if notation is None else repair(tags, notation.scheme)
            for word, (own, tag, right) in enumerate(zip(given, tags, repaired, strict=True)):
                line = row.line_of(word)
                if own in marks:
                    add("missing-tags", line, f"'{own or '_'}'")
                if notation is None:
                    continue
                if tag not in (OUTSIDE, MISSING) and not split_tag(tag)[1]:
                    add("tags-outside-scheme", line, f"'{tag}'", scheme=notation.scheme)
                elif changed and tag != right:
                    detail = f"'{own}' should be '{notation.write(right)}' in {notation.scheme}"
                    add("tag-spelling", line, detail, scheme=notation.scheme)

    def find_against(self, dev: Tags) -> None:
        notation = dev.notation or self.notation
        if self.notation is None or notation is None:
            unknown = [tag for tag in dev.counts if tag not in self.counts and tag != MISSING]
        else:
            read = {tag: notation.read(tag) for tag in dev.counts}
            types = self.types() | {""}
            unknown = [
                tag
                for tag, own in read.items()
                if own is None or (own != OUTSIDE and split_tag(own)[1].casefold() not in types)
            ]
        count = sum(dev.counts[tag] for tag in unknown)
        dev.findings.put("unknown-dev-labels/tag", count, ((dev.where[tag], f"'{tag}'") for tag in unknown))


Kind = Labels | Tags | Questions | Choices
KINDS: dict[str, type[Tags | Questions | Choices]] = {"tagged": Tags, "questions": Questions, "choices": Choices}
