"""Checks of texts, labels, tags, questions and choices."""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..core.util import plural
from ..tasks.tagging.schemes import MISSING_TAGS, OUTSIDE, Notation, Reading, find_notation, repair, spans, split_tag
from ..text.fingerprints import hash_text
from ..text.formats.cells import LABEL_SEPARATOR
from ..text.readers.choices import ChoiceRow
from ..text.readers.squad import Question
from ..text.readers.tagged import MISSING, Sentence
from .rows import Finding, FindingCounter, Item, SourceLocation

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Text checks: damaged characters, lengths and constant columns ---------------------------------------------------


CUTS = (128, 256, 512)
_BLOCK = 1024
_LONG_WORDS = 2000
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MOJIBAKE = re.compile(  # UTF-8 that was read as Latin-1 or Windows-1252, once
    "\u00c3[\u0080-\u00bf\u0192\u02c6\u02dc\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u2018-\u203a\u20ac\u2122]"
    "|\u00c2[\u00a0-\u00bf]|\u00e2\u20ac|\u00ef\u00bb\u00bf|\u00f0\u0178"
)
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_MARKUP = re.compile(r"&(?:amp|lt|gt|quot|nbsp|#\d+);|<(?:br|p|div|span|a)\b[^>]*>", re.IGNORECASE)


class Characters:
    """Counts texts with damaged or unusual characters."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.control, self.mojibake, self.lost, self.hidden = (
            FindingCounter(),
            FindingCounter(),
            FindingCounter(),
            FindingCounter(),
        )
        self.markup, self.unnormal = FindingCounter(), FindingCounter()

    def see(self, item: Item) -> None:
        """Check the texts of a row."""
        text = item.text if item.pair is None else f"{item.text} {item.pair}"
        self._count(self.control, _CONTROL.search(text), item)
        if "&" in text or "<" in text:
            self._count(self.markup, _MARKUP.search(text), item)
        if text.isascii():
            return
        self._count(self.mojibake, _MOJIBAKE.search(text), item)
        self._count(self.lost, re.search("\ufffd", text), item)
        self._count(self.hidden, _HIDDEN.search(text), item)
        if not unicodedata.is_normalized("NFC", text):
            self.unnormal.add(self.file, item.line)

    def _count(self, tally: FindingCounter, found: re.Match[str] | None, item: Item) -> None:
        if found is not None:
            codes = " ".join(f"U+{ord(character):04X}" for character in found[0][:3])
            shown = found[0] if found[0].isprintable() else codes
            tally.add(self.file, item.line, f"at character {found.start() + 1}: {shown}")

    def findings(self) -> list[Finding]:
        """Return the findings."""
        return [
            *self.mojibake.finding(
                "mojibake", "warning", "{count:text looks|texts look} like UTF-8 decoded with another encoding.",
                "Export the file again as UTF-8.",
            ),
            *self.lost.finding(
                "lost-characters", "warning",
                "{count:text contains|texts contain} U+FFFD, the replacement for undecodable characters.",
                "Export the file again as UTF-8.",
            ),
            *self.control.finding(
                "control-characters", "warning", "{count:text contains|texts contain} control characters."
            ),
            *self.hidden.finding(
                "hidden-characters", "note", "{count:text contains|texts contain} invisible characters."
            ),
            *self.markup.finding("markup", "note", "{count:text contains|texts contain} HTML markup."),
            *self.unnormal.finding(
                "unicode-forms", "note",
                "{count:text spells|texts spell} accents as combining characters (not NFC).",
            ),
        ]  # fmt: skip


class Lengths:
    """Row lengths of a file in words, and in tokens if a tokenizer is given."""

    def __init__(self, file: str, tokenizer: Tokenizer | None) -> None:
        self.file, self.tokenizer = file, tokenizer
        self.words, self.tokens, self.lines = array("I"), array("I"), array("Q")
        self._waiting: list[Item] = []

    def see(self, item: Item, num_words: int) -> None:
        """Add a row to the statistics."""
        self.words.append(num_words)
        self.lines.append(item.line)
        if self.tokenizer is not None:
            self._waiting.append(item)
            if len(self._waiting) == _BLOCK:
                self._flush()

    def _flush(self) -> None:
        from ..text.tokenizers.encoding import TextCounts

        assert self.tokenizer is not None
        texts = [item.text if item.pair is None else (item.text, item.pair) for item in self._waiting]
        ids, _ = self.tokenizer.encode_ids(texts, None, counts=TextCounts())
        self.tokens.extend(len(row) for row in ids)
        self._waiting = []

    def close(self) -> Lengths:
        """Tokenize the remaining rows."""
        if self._waiting:
            self._flush()
        return self

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

    def findings(self) -> list[Finding]:
        """Return a finding for very long rows."""
        unit, lengths = self._unit()
        limit = 512 if self.tokens else _LONG_WORDS
        rows = np.flatnonzero(lengths > limit)
        if not len(rows):
            return []
        places = [
            SourceLocation(self.file, int(self.lines[row]), f"{int(lengths[row]):,} {unit}")
            for row in rows[:5].tolist()
        ]
        sentence = f"{plural(len(rows), 'row is', 'rows are')} longer than {limit:,} {unit}; most models truncate them."
        return [Finding("long-rows", "warning", sentence, len(rows), "Split them, or raise --max-length.", places)]

    def _unit(self) -> tuple[str, np.ndarray]:
        chosen = self.tokens if self.tokens else self.words
        return ("tokens" if self.tokens else "words"), np.frombuffer(chosen, dtype=np.uint32)


class Constants:
    """Finds columns with the same value in every row."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.first: dict[str, str | None] = {}

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        cells = {"text": item.text, "text_pair": item.pair}
        if not self.num_rows:
            self.first = {name: value for name, value in cells.items() if value is not None}
        self.num_rows += 1
        for name in [name for name, value in self.first.items() if value != cells[name]]:
            del self.first[name]

    def findings(self) -> list[Finding]:
        """Return a finding per constant column; needs at least two rows."""
        if self.num_rows < 2:
            return []
        return [
            Finding(
                "constant-column", "problem", f"The column of the {name.replace('_', ' ')} is the same in every row.",
                self.num_rows, "Set the column mapping with --columns.",
            )
            for name in self.first
        ]  # fmt: skip


# -- Label checks: class frequencies, inconsistently spelled labels and numeric outliers -----------------------------


FEW = 10  # a class with fewer rows is reported
MAX_LABELS = 10_000  # more distinct values are numbers or not labels
_IMBALANCE = 20  # reported ratio of the largest class to the smallest


class Labels:
    """Label statistics of one file, with at most MAX_LABELS distinct labels in memory."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}
        self.missing, self.no_numbers = FindingCounter(), FindingCounter()
        self.is_open, self.num_rows = True, 0
        self.low, self.high, self.total, self.squares, self.num_numbers = math.inf, -math.inf, 0.0, 0.0, 0
        self.has_fraction = False

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        self.num_rows += 1
        if item.label is None:
            self.missing.add(self.file, item.line)
            return
        for label in item.label.split(LABEL_SEPARATOR) if LABEL_SEPARATOR in item.label else (item.label,):
            if self.is_open:
                self.counts[label] += 1
                self.where.setdefault(label, item.line)
                self.is_open = len(self.counts) <= MAX_LABELS
        self._see_number(item)

    def _see_number(self, item: Item) -> None:
        try:
            value = float(item.label or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.no_numbers.add(self.file, item.line, f"'{(item.label or '')[:40]}'")
            return
        self.num_numbers += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total, self.squares = self.total + value, self.squares + value * value
        self.has_fraction = self.has_fraction or value != int(value)

    @property
    def looks_numeric(self) -> bool:
        """Whether the labels are regression targets rather than class names."""
        many = len(self.counts) > 20 or self.has_fraction
        return self.num_numbers > 0 and not self.no_numbers.count and many

    def findings(self, is_regression: bool) -> list[Finding]:
        """Return the findings."""
        found = self.missing.finding(
            "no-label",
            "problem",
            "{count:row has|rows have} no label.",
            "Label them, or skip them with --skip-bad-rows.",
        )
        if not self.num_rows or self.missing.count == self.num_rows:
            return found
        return found + (self._of_numbers() if is_regression else self._of_classes())

    def _of_numbers(self) -> list[Finding]:
        found = self.no_numbers.finding(
            "no-number", "problem", "{count:label is not a finite number|labels are not finite numbers}."
        )
        if self.num_numbers > 1 and self.low == self.high:
            sentence = f"Every label is {self.low:g}: there is nothing to learn."
            found.append(Finding("constant-label", "problem", sentence, self.num_numbers))
            return found
        mean = self.total / max(self.num_numbers, 1)
        deviation = math.sqrt(max(self.squares / max(self.num_numbers, 1) - mean * mean, 0.0))
        if deviation and max(self.high - mean, mean - self.low) > 6 * deviation:
            spread = f"{self.low:g} to {self.high:g}"
            sentence = f"Labels range from {spread}, over 6 standard deviations ({deviation:.3g}) off the mean."
            found.append(Finding("far-off-label", "warning", sentence, 1, "Check these labels for typing errors."))
        return found

    def _of_classes(self) -> list[Finding]:
        if len(self.counts) < 2:
            sentence = f"Every row has the label '{next(iter(self.counts))}': there is nothing to learn."
            return [Finding("constant-label", "problem", sentence, self.num_rows)]
        if not self.is_open:
            sentence = f"There are more than {MAX_LABELS:,} different labels."
            return [
                Finding("too-many-labels", "problem", sentence, MAX_LABELS, "Check the label column; see --columns.")
            ]
        found = []
        few = {label: count for label, count in self.counts.items() if count < FEW}
        if few:
            places = [
                SourceLocation(self.file, self.where[label], f"'{label[:40]}': {plural(count, 'row')}")
                for label, count in list(few.items())[:5]
            ]
            have = "has" if len(few) == 1 else "have"
            sentence = f"{len(few):,} of {len(self.counts):,} classes {have} fewer than {FEW} rows."
            found.append(Finding("few-rows", "warning", sentence, len(few), "Add rows, or merge classes.", places))
        most, least = max(self.counts.values()), min(self.counts.values())
        if most >= _IMBALANCE * least:
            sentence = f"The most frequent class has {plural(most, 'row')} and the rarest {least:,}."
            found.append(Finding("uneven-classes", "note", sentence, most, "See --class-weight balanced."))
        return found + self._alike()

    def _alike(self) -> list[Finding]:
        """Find classes whose names differ only in case or spacing."""
        names: dict[str, list[str]] = {}
        for label in self.counts:
            names.setdefault(" ".join(label.casefold().split()), []).append(label)
        same = [group for group in names.values() if len(group) > 1]
        places = [
            SourceLocation(self.file, self.where[group[1]], " and ".join(repr(name) for name in group))
            for group in same[:5]
        ]
        if not same:
            return []
        sentence = f"{plural(len(same), 'class is', 'classes are')} spelled in several ways."
        return [Finding("labels-alike", "problem", sentence, len(same), "Use one spelling per label.", places)]


def against(train: Labels, dev: Labels) -> list[Finding]:
    """Find classes that only one of the two files has."""
    unknown = [label for label in dev.counts if label not in train.counts]
    unseen = [label for label in train.counts if label not in dev.counts]
    found = []
    if unknown:
        places = [SourceLocation(dev.file, dev.where[label], f"'{label[:40]}'") for label in unknown[:5]]
        count = sum(dev.counts[label] for label in unknown)
        sentence = f"{plural(count, 'dev row has', 'dev rows have')} a label that training does not have."
        found.append(
            Finding(
                "unknown-dev-labels", "problem", sentence, count, "Fix them, or move such rows to training.", places
            )
        )
    if unseen:
        named = ", ".join(f"'{label[:30]}'" for label in unseen[:5])
        sentence = f"{plural(len(unseen), 'class of training has', 'classes of training have')} no dev row: {named}."
        found.append(Finding("unseen-classes", "note", sentence, len(unseen)))
    return found


# -- Question-answering checks: unanswerable questions, answer lengths, and contexts shared by train and dev ---------


_LONG_ANSWER = 30


class QuestionStatistics:
    """Statistics of the questions of one file."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.contexts: dict[int, int] = {}
        self.kinds: Counter[str] = Counter()
        self.num_long, self.long_places = 0, list[SourceLocation]()

    def see(self, item: Item) -> None:
        """Add a question to the statistics."""
        row: Question = item.row
        self.num_rows += 1
        self.contexts.setdefault(hash_text(row.context), row.line)
        self.kinds["without an answer" if row.is_impossible else "with an answer"] += 1
        for answer in row.answers or ():
            if len(answer.text.split()) > _LONG_ANSWER:
                self.num_long += 1
                if len(self.long_places) < 5:
                    self.long_places.append(SourceLocation(self.file, row.line, f"{len(answer.text.split())} words"))
                break

    def shown(self) -> Counter[str]:
        """Count the questions with and without an answer."""
        return self.kinds

    def findings(self) -> list[Finding]:
        """Return the findings."""
        found = []
        if self.num_long:
            many = plural(self.num_long, "question has", "questions have")
            sentence = f"{many} an answer of more than {_LONG_ANSWER} words; predicted spans are never that long."
            found.append(Finding("long-answers", "warning", sentence, self.num_long, "", self.long_places))
        if self.num_rows and not self.kinds["with an answer"]:
            sentence = "No question has an answer: there is nothing to learn."
            found.append(Finding("constant-label", "problem", sentence, self.num_rows))
        return found


def questions_against(train: QuestionStatistics, dev: QuestionStatistics) -> list[Finding]:
    """Find dev contexts that occur in training, and unanswerable dev questions if training has none."""
    shared = [name for name in dev.contexts if name in train.contexts]
    found = []
    if shared:
        places = [
            SourceLocation(dev.file, dev.contexts[name], f"as in train, question {train.contexts[name]}")
            for name in shared[:5]
        ]
        sentence = (
            f"{plural(len(shared), 'dev context is', 'dev contexts are')} also in training, so dev scores are too high."
        )
        found.append(Finding("shared-contexts", "warning", sentence, len(shared), "Split by context.", places))
    if dev.kinds["without an answer"] and not train.kinds["without an answer"]:
        count = dev.kinds["without an answer"]
        sentence = (
            f"{plural(count, 'dev question has', 'dev questions have')} no answer, but every training question has one."
        )
        found.append(Finding("unknown-dev-labels", "problem", sentence, count))
    return found


# -- Multiple-choice checks: position bias, length bias and duplicate choices ----------------------------------------


_SIGNIFICANCE = 0.001  # p-value below which a bias is reported


class ChoiceStatistics:
    """Statistics of the choices of one file."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows, self.num_choices = file, 0, 0
        self.positions: Counter[int] = Counter()
        self.same = FindingCounter()
        self.longest = 0

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        row: ChoiceRow = item.row
        self.num_rows, self.num_choices = self.num_rows + 1, len(row.choices)
        plain = [" ".join(choice.casefold().split()) for choice in row.choices]
        if len(set(plain)) < len(plain):
            self.same.add(self.file, row.line, f"'{next(text for text in plain if plain.count(text) > 1)[:40]}' twice")
        if row.label is not None:
            self.positions[row.label] += 1
            lengths = [len(choice) for choice in row.choices]
            self.longest += lengths[row.label] == max(lengths) and lengths.count(max(lengths)) == 1

    def shown(self) -> Counter[str]:
        """Count the correct answers by position."""
        return Counter({f"choice {index}": self.positions[index] for index in range(self.num_choices)})

    def findings(self) -> list[Finding]:
        """Return the findings."""
        from scipy.stats import binomtest, chisquare

        found = self.same.finding(
            "same-choices",
            "problem",
            "{count:row has|rows have} a duplicate choice, which is both correct and incorrect.",
        )
        counts = [self.positions[index] for index in range(self.num_choices)]
        if sum(counts) and chisquare(counts).pvalue < _SIGNIFICANCE:
            most = max(range(len(counts)), key=counts.__getitem__)
            share = counts[most] / sum(counts)
            even = 1 / len(counts)
            sentence = f"The correct answer is choice {most} in {share:.0%} of the rows; chance is {even:.0%}."
            found.append(
                Finding("position-bias", "warning", sentence, counts[most], "Shuffle the choices of each row.")
            )
        chance = 1 / max(self.num_choices, 1)
        if (
            self.num_rows
            and binomtest(self.longest, self.num_rows, chance, alternative="greater").pvalue < _SIGNIFICANCE
        ):
            share = self.longest / self.num_rows
            sentence = f"The longest choice is correct in {share:.0%} of the rows; chance is {chance:.0%}."
            found.append(Finding("length-bias", "note", sentence, self.longest))
        return found


# -- Tag checks: tagging scheme, invalid tags and entity frequencies -------------------------------------------------


class Tags:
    """Tag statistics of one file. The scheme is known only after the last row, so the sentences are stored."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.rows: list[Sentence] = []
        self.counts: Counter[str] = Counter()
        self.where: dict[str, int] = {}

    def see(self, item: Item) -> None:
        """Add a sentence to the statistics."""
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
        """The scheme of the tags, in a clause."""
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

    def findings(self) -> list[Finding]:
        """Return the findings."""
        if len(self.counts) < 2:
            sentence = f"Every word has the tag '{next(iter(self.counts), '')}': there is nothing to learn."
            return [Finding("constant-label", "problem", sentence, len(self.rows))]
        found = self._spelling()
        rare = {name: count for name, count in self.shown().items() if count < FEW}
        if rare:
            listed = ", ".join(f"{name} {count}" for name, count in sorted(rare.items(), key=lambda pair: pair[1])[:8])
            one, many = ("tag", "tags") if self.notation is None else ("type of entity", "types of entity")
            sentence = f"{plural(len(rare), f'{one} occurs', f'{many} occur')} fewer than {FEW} times: {listed}."
            found.append(Finding("few-rows", "warning", sentence, len(rare), "Add sentences, or merge types."))
        if self.notation is None:
            return found
        empty = sum(all(tag in (OUTSIDE, MISSING) for tag in self.read(row)) for row in self.rows)
        if empty:
            share = empty / len(self.rows)
            have = "has" if empty == 1 else "have"
            sentence = f"{plural(empty, 'sentence')} ({share:.0%}) {have} no entity."
            found.append(Finding("empty-sentences", "warning" if share > 0.9 else "note", sentence, empty))
        return found

    def _spelling(self) -> list[Finding]:
        missing = FindingCounter()
        marks = (MISSING,) if self.notation is None else MISSING_TAGS
        for row in self.rows:
            for word, tag in enumerate(row.tags or ()):
                if tag in marks:
                    missing.add(self.file, row.line_of(word), f"'{tag or '_'}'")
        sentence = "{count:word has|words have} no tag."
        found = missing.finding("missing-tags", "warning", sentence, "Training leaves such words out.")
        if self.notation is None:
            return found
        scheme, written = self.notation.scheme, self.notation.description
        if written != "BIO":
            found.append(Finding("tag-scheme", "note", f"The tags are {written}.", len(self.rows)))
        faults, strange = FindingCounter(), FindingCounter()
        for row in self.rows:
            tags = self.read(row)
            repaired, changed = repair(tags, scheme)
            for word, (tag, right) in enumerate(zip(tags, repaired, strict=True)):
                if tag not in (OUTSIDE, MISSING) and not split_tag(tag)[1]:
                    strange.add(self.file, row.line_of(word), f"'{tag}'")
                elif changed and tag != right:
                    own, wanted = (row.tags or ())[word], self.notation.write(right)
                    faults.add(self.file, row.line_of(word), f"'{own}' should be '{wanted}' in {scheme}")
        return [
            *found,
            *strange.finding(
                "tags-outside-scheme", "problem", f"{{count:tag is|tags are}} not valid in {scheme}.", "Fix them."
            ),
            *faults.finding(
                "tag-spelling",
                "warning",
                f"{{count:tag does|tags do}} not follow the {scheme} scheme.",
                "Training repairs them.",
            ),
        ]


def tags_against(train: Tags, dev: Tags) -> list[Finding]:
    """Find dev tags that training does not have."""
    notation = dev.notation or train.notation
    if train.notation is None or notation is None:
        unknown = [tag for tag in dev.counts if tag not in train.counts and tag != MISSING]
    else:
        read = {tag: notation.read(tag) for tag in dev.counts}
        types = train.types() | {""}
        unknown = [
            tag
            for tag, own in read.items()
            if own is None or (own != OUTSIDE and split_tag(own)[1].casefold() not in types)
        ]
    if not unknown:
        return []
    places = [SourceLocation(dev.file, dev.where[tag], f"'{tag}'") for tag in unknown[:5]]
    count = sum(dev.counts[tag] for tag in unknown)
    sentence = f"{plural(count, 'dev word has', 'dev words have')} a tag that training does not have."
    return [
        Finding(
            "unknown-dev-labels", "problem", sentence, count, "Fix them, or move such sentences to training.", places
        )
    ]
