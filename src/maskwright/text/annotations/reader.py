"""Reads the files of annotation tools as tagged words or as labeled texts.

Offsets are those of the file: code points, unless the recorded texts of the spans prove UTF-16 units or bytes. Words
are those of the file, else those of `words.split_words`, and a span that begins or ends inside a word splits it. Of
overlapping spans the longest is kept. What several annotators said equally counts once; where they differ, one has to
be chosen. Everything that is skipped is counted and said.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowError
from ...core.progress import note
from ...core.util import plural
from ..formats.cells import LABEL_SEPARATOR
from ..formats.files import STDIN
from ..formats.records import Record
from ..words import MISSING, Sentence, Span, split_words
from . import standoff, tools
from .document import Annotation, Document, LabeledSpan, Parsed, Reading, Sample, sample_of


@dataclass(frozen=True)
class AnnotationFormat:
    """A format of annotated text: its name, how the beginning of a file shows it, and its parser."""

    name: str
    fits: Callable[[Sample], bool]
    parse: Callable[[Reading], Parsed]


def _refuse_coco(reading: Reading) -> Parsed:
    raise reading.wrong_project(1, "this file labels regions of images (COCO)", "images")
    yield  # a generator, as all parsers


FORMATS = (  # in the order in which a file is recognized; a new one is a parser and a line here
    AnnotationFormat("Label Studio JSON", tools.is_label_studio, tools.parse_label_studio),
    AnnotationFormat("Label Studio JSON-MIN", tools.is_label_studio_min, tools.parse_label_studio_min),
    AnnotationFormat("Label Studio CSV", tools.is_label_studio_table, tools.parse_label_studio_min),
    AnnotationFormat("spaCy JSON (paragraphs)", tools.is_spacy_v2, tools.parse_spacy_v2),
    AnnotationFormat("spaCy training pairs", tools.is_spacy_pairs, tools.parse_spacy_pairs),
    AnnotationFormat("Prodigy JSON lines", tools.is_prodigy, tools.parse_prodigy),
    AnnotationFormat("spaCy Doc JSON", tools.is_spacy_doc, tools.parse_spacy_doc),
    AnnotationFormat("Doccano JSON lines", tools.is_doccano, tools.parse_doccano),
    AnnotationFormat("spaCy DocBin", lambda sample: sample.suffix == ".spacy", tools.parse_docbin),
    AnnotationFormat("brat", standoff.is_brat, standoff.parse_brat),
    AnnotationFormat("WebAnno TSV", standoff.is_webanno, standoff.parse_webanno),
    AnnotationFormat("COCO", lambda sample: {"images", "annotations"} <= set(sample.first), _refuse_coco),
)


def annotation_format(path: Path | str) -> AnnotationFormat | None:
    """Returns the annotation format of a file or folder, None for any other."""
    if str(path) == STDIN or not Path(path).exists():
        return None
    return _recognized(str(path), stamp_of(Path(path)))


def stamp_of(path: Path) -> tuple[Any, ...]:
    """Changes with the content of a file, or of the files in a folder; with the text beside an .ann file."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path, path.with_suffix(".txt")]
    return tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in files if one.is_file())


@lru_cache(maxsize=16)  # a command asks several times
def _recognized(path: str, _: tuple[Any, ...]) -> AnnotationFormat | None:
    sample = sample_of(Path(path))
    return next((one for one in FORMATS if one.fits(sample)), None)


ROLES = ("text", "label", "tag", "annotator", "overlap")
OVERLAPS = ("longest", "error")
SPANS, CLASSES = "spans", "classes"
OUTSIDE = "O"
UNITS = ("characters", "UTF-16 units", "bytes")
_QUOTED = 40  # characters of a text in a message


@dataclass
class AnnotationFile:
    """The texts of an annotation file, with checked offsets in characters.

    contents: SPANS, CLASSES, or both (of a file without either what its format can have); faults: records that cannot
    be used; span_faults: spans that cannot be; left_out: what was not read, by name; unit: of the file's offsets.
    """

    path: Path
    format: str
    roles: Mapping[str, str]
    contents: frozenset[str]
    documents: list[Document]
    faults: list[RowError]
    span_faults: list[RowError]
    left_out: Counter[str]
    notes: list[str]
    unit: str = UNITS[0]
    _said: set[str] = field(default_factory=set)

    # -- what it contains ------------------------------------------------------------------------------------

    @property
    def questions(self) -> list[str]:
        """Names of the questions that were answered with classes."""
        return list(dict.fromkeys(name for one in self._annotations() for name in one.classes))

    def _annotations(self) -> Iterator[Annotation]:
        return (one for document in self.documents for one in document.annotations)

    @property
    def annotators(self) -> list[str]:
        """The names of all annotators, sorted."""
        return sorted({one.annotators[0] for one in self._annotations() if one.annotators})

    def _chosen(self, document: Document, of: str, question: str = "") -> Annotation | RowError | None:
        """Returns what the annotators of a text agree on; None without an annotation, an error if they disagree."""
        wanted = self.roles.get("annotator")
        given = [one for one in document.annotations if wanted is None or wanted in one.annotators]
        given = [one for one in given if one.is_of_spans or of != SPANS]
        given = [one for one in given if one.is_reference] or given
        if not given:
            return None
        if document.is_partial:
            given = [_union(given)]
            both = set(given[0].rejected).intersection(*given[0].classes.values()) if given[0].classes else set()
            if both and of == CLASSES:
                return document.fault("answer", f"'{min(both)}' is both accepted and rejected: keep one answer")
        found: dict[Any, Annotation] = {}
        for one in given:
            found.setdefault(frozenset(one.spans) if of == SPANS else frozenset(one.classes.get(question, ())), one)
        if len(found) == 1:
            return given[0]
        names = list(dict.fromkeys(one.annotators[0] for one in found.values() if one.annotators))
        if len(names) > 1:
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            return document.fault("annotations", f"{listed} disagree: choose one with --annotator NAME")
        who = f"{names[0]} has" if names else "the text has"
        return document.fault("annotations", f"{who} {len(found)} annotations that differ: keep one of them")

    @property
    def _unannotated(self) -> str:
        by = self.roles.get("annotator")
        return "texts without an annotation" + (f" by {by}" if by else "")

    def _check_annotator(self) -> None:
        wanted = self.roles.get("annotator")
        if wanted is not None and not any(wanted in one.annotators for one in self._annotations()):
            listed = ", ".join(self.annotators) or "not named in the file"
            raise InputError(f"{self.path} has no annotation by '{wanted}': the annotators are {listed}.")

    # -- as tagged words -------------------------------------------------------------------------------------

    def tagged(self, faults: list[RowError], *, need_tags: bool = True) -> Iterator[Sentence]:
        """Yields tagged texts and adds the errors of the others to `faults`; then reports what was read.

        need_tags: leave out texts that nobody annotated, and report those whose spans cannot be used; otherwise the
        tags of both are None.
        """
        self._check_annotator()
        if need_tags and SPANS not in self.contents:
            raise InputError(
                f"{self.path} ({self.format}) contains classes of texts and no spans: run maskwright finetune "
                "classification to train on them."
            )
        num_before = len(faults)
        faults += [*self.faults, *(self.span_faults if need_tags else ())]
        left_out = Counter(self.left_out)
        num_texts = num_spans = 0
        first_overlap = ""
        for document in self.documents:
            chosen = None if document.has_bad_spans else self._chosen(document, SPANS)
            if chosen is None or isinstance(chosen, RowError):
                if not need_tags:
                    yield from self._texts(document, None, left_out)
                elif chosen is not None:
                    faults.append(chosen)
                elif not document.has_bad_spans:
                    left_out[self._unannotated] += not document.is_counted
                continue
            spans, lost = _without_overlaps(chosen.spans, document.text)
            if lost and self.roles.get("overlap") == "error":
                faults.append(document.fault(SPANS, f"{lost[0][1]}: remove one, or use --overlap longest"))
                continue
            for kind, sentence in lost:
                left_out[kind] += 1
                where = f"{document.place}, " if document.place else ""
                first_overlap = first_overlap or f"{where}line {document.line}: {sentence}"
            num_texts, num_spans = num_texts + 1, num_spans + len(spans)
            yield from self._texts(document, spans, left_out)
        if not num_texts and not faults and need_tags:
            raise InputError(f"{self.path} ({self.format}) has no annotated text: {_counted(left_out)}.")
        left_out["bad rows"] += len({(fault.file, fault.line) for fault in faults[num_before:]})
        if num_texts:
            self._say(f"{plural(num_texts, 'text')}, {plural(num_spans, 'span')}", left_out, first_overlap)

    def _texts(
        self, document: Document, spans: Sequence[LabeledSpan] | None, left_out: Counter[str]
    ) -> Iterator[Sentence]:
        text, own = document.text, spans or ()
        words = document.words
        words = list(split_words(text) if words is None else words)
        num_words = len(words)
        words = _split_words(words, sorted({place for span in own for place in (span.start, span.end)}))
        left_out["words that a span cuts, split there"] += len(words) - num_words
        ends = [end for _, end in words]
        for span in own:
            after = bisect_right(ends, span.start)  # the first word that ends in the span or after it
            left_out["spans without a word"] += after == len(words) or words[after][0] >= span.end
        tags = _bio_tags(words, own) if document.tags is None else [tag or OUTSIDE for tag in document.tags]
        for number, tag in enumerate(tags if document.unknown else ()):
            if tag == OUTSIDE and words[number] in document.unknown:
                tags[number] = MISSING
        pieces = _lines(text, own) if document.has_lines else [(0, len(text))]
        at = 0
        for begin, end in pieces:
            first = at
            while at < len(words) and words[at][0] < end:
                at += 1
            if first == at:
                continue
            yield Sentence(
                tuple(text[low:high] for low, high in words[first:at]),
                None if spans is None else tuple(tags[first:at]),
                text[begin:end],
                [(low - begin, high - begin) for low, high in words[first:at]],
                document.line + text.count("\n", 0, begin),
                document.file,
            )

    # -- as labeled texts ------------------------------------------------------------------------------------

    def records(self, *, need_label: bool = True, multi_label: bool | None = False) -> Iterator[Record]:
        """Yields texts with their class as rows of a table with `text` and `label`; then reports what was read.

        need_label: leave out texts without a class; otherwise their label is None. multi_label: the label is a list of
        any number of classes; None: several are joined with `|`. Raises InputError for a file without classes, and for
        several classes of one text if multi_label is False.
        """
        self._check_annotator()
        question = self._question(need_label)
        for fault in self.faults:
            yield Record(fault.file, fault.line, faults=(fault,))
        left_out = Counter(self.left_out)
        offered = {name for one in self._annotations() for name in (*one.classes.get(question, ()), *one.rejected)}
        found: list[tuple[Document, list[str] | None]] = []
        num_faults = len(self.faults)
        for document in self.documents:
            chosen = self._chosen(document, CLASSES, question)
            if isinstance(chosen, RowError) and need_label:
                num_faults += 1
                yield Record(chosen.file, chosen.line, faults=(chosen,))
                continue
            if isinstance(chosen, RowError):
                chosen = None
            classes = None if chosen is None else list(dict.fromkeys(chosen.classes.get(question, ())))
            if chosen is not None and chosen.rejected and not classes:
                classes = _classes_instead(chosen.rejected, offered, bool(multi_label))
                document.is_counted = classes is None
                left_out["rejected answers"] += classes is None
            found.append((document, classes))
        several = [document for document, classes in found if classes is not None and len(classes) > 1]
        if several and need_label and multi_label is False:
            raise InputError(
                f"{several[0].file}:{several[0].line}: {plural(len(several), 'text has', 'texts have')} several "
                "classes, the first here: use --multi-label, or keep one class of each text."
            )
        num_texts = 0
        for document, classes in found:
            label: Any = classes
            if not multi_label and classes is not None:
                label = LABEL_SEPARATOR.join(classes) or ([] if several and multi_label is None else None)
            if label is None and need_label:
                name = self._unannotated if classes is None else "texts without a class"
                left_out[name] += not document.is_counted
                continue
            num_texts += 1
            yield Record(document.file, document.line, named={"text": document.text, "label": label})
        if not num_texts and need_label and not num_faults:
            raise InputError(f"{self.path} ({self.format}) has no text with a class: {_counted(left_out)}.")
        left_out["bad rows"] += num_faults
        if num_texts:
            self._say(plural(num_texts, "text") + (" with classes" if need_label else ""), left_out)

    def _question(self, need_label: bool) -> str:
        wanted, names = self.roles.get("label"), self.questions
        if wanted is not None:
            if names and wanted not in names:
                raise InputError(f"{self.path} has no classes '{wanted}': it has {', '.join(names)}.")
            return wanted
        if need_label and CLASSES not in self.contents:
            raise InputError(
                f"{self.path} ({self.format}) contains labeled spans and no classes of texts: run maskwright finetune "
                "tagging to train on them."
            )
        if len(names) > 1 and need_label:
            raise InputError(
                f"{self.path} has several classes of each text: choose with --columns label=NAME ({', '.join(names)})."
            )
        return names[0] if names else ""

    # -- what is said ----------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """After reading: what was read and what was left out."""
        return " ".join(sorted(self._said))

    def _say(self, read: str, left_out: Mapping[str, int], first: str = "") -> None:
        parts = [f"{self.path} ({self.format}): {read}"]
        parts += [_counted(left_out)]
        parts += [f"the first, {first}"] if first else []
        parts += [f"its offsets count {self.unit}, converted to characters"] if self.unit != UNITS[0] else []
        message = "; ".join([*parts, *self.notes]) + "."
        if message not in self._said:
            self._said.add(message)
            note(message)


def _counted(left_out: Mapping[str, int]) -> str:
    counted = ", ".join(f"{name} ({count:,})" for name, count in left_out.items() if count)
    return f"left out or changed: {counted}" if counted else "nothing is skipped"


# -- from a file to checked texts --------------------------------------------------------------------------


def find_annotations(path: Path | str, columns: Mapping[str, str] | None = None) -> AnnotationFile | None:
    """Returns the texts of an annotation file; None for a file of any other format.

    columns: "text", "label" and "tag" name what to read where a file has several texts, classes or kinds of spans;
    "annotator" and "overlap" are what --annotator and --overlap set. Raises InputError for an unknown role, an export
    without texts, and a file that cannot be parsed; MissingExtraError for a DocBin without spaCy.
    """
    roles = dict(columns or {})
    if annotation_format(path) is None:
        extra = [role for role in ("annotator", "overlap") if role in roles]
        if extra:
            raise InputError(f"{path} is not a file of an annotation tool ({known_formats()}): remove --{extra[0]}.")
        return None
    for role in roles:
        if role not in ROLES:
            raise InputError(f"Unknown column role '{role}' of an annotation file: use {', '.join(ROLES)}.")
    if roles.get("overlap", OVERLAPS[0]) not in OVERLAPS:
        raise InputError(f"overlap={roles['overlap']} is not valid: use {' or '.join(OVERLAPS)}.")
    return _load(str(path), stamp_of(Path(path)), tuple(sorted(roles.items())))


def has_annotations(path: Path | str, what: str, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file is an annotation file with SPANS or CLASSES."""
    if annotation_format(path) is None:
        return False
    found = find_annotations(path, {role: name for role, name in (columns or {}).items() if role in ROLES})
    return found is not None and what in found.contents


@lru_cache(maxsize=4)  # a command recognizes, counts and reads the same file
def _load(path: str, _: tuple[Any, ...], roles: tuple[tuple[str, str], ...]) -> AnnotationFile:
    kind = annotation_format(path)
    assert kind is not None
    reading = Reading(Path(path), dict(roles))
    faults: list[RowError] = []
    documents: list[Document] = []
    by_key: dict[Any, Document] = {}
    for found in kind.parse(reading):
        if isinstance(found, RowError):
            faults.append(found)
            continue
        same = by_key.get((found.key, found.text)) if found.key is not None else None
        if same is not None:
            same.annotations += found.annotations
            same.is_partial = same.is_partial or found.is_partial
            continue
        by_key[(found.key, found.text)] = found
        documents.append(found)
    if not documents and not faults:
        raise InputError(f"{path} is {kind.name} and contains no text.")
    contents = _contents(documents)
    unit = _unit_of(documents)
    span_faults = []
    for document in documents:
        own = _checked(document, unit)
        document.has_bad_spans = bool(own)
        span_faults += own
    return AnnotationFile(
        Path(path),
        kind.name,
        reading.roles,
        frozenset(contents),
        documents,
        faults,
        span_faults,
        reading.left_out,
        reading.notes,
        unit,
    )


def _contents(documents: Sequence[Document]) -> set[str]:
    given = [one for document in documents for one in document.annotations]
    has_spans = any(one.spans for one in given) or any(one.tags is not None for one in documents)
    has_classes = any(one.rejected or any(one.classes.values()) for one in given)
    if not has_spans and not has_classes:
        return {SPANS} if any(one.words or one.has_lines for one in documents) else {SPANS, CLASSES}
    return ({SPANS} if has_spans else set()) | ({CLASSES} if has_classes else set())


def _classes_instead(rejected: Sequence[str], offered: set[str], multi_label: bool) -> list[str] | None:
    """Returns the classes of a text whose labels were only rejected; None if any other label may apply."""
    if len(offered) == 1 and not multi_label:
        return [f"not {rejected[0]}"]
    return [] if set(rejected) == offered else None


def _union(given: Sequence[Annotation]) -> Annotation:
    """Joins answers to several questions about one text."""
    joined = Annotation(annotators=given[0].annotators)
    for one in given:
        joined.rejected = [*joined.rejected, *one.rejected]
        joined.spans += [span for span in one.spans if span not in joined.spans]
        for name, values in one.classes.items():
            own = joined.classes.setdefault(name, [])
            own += [value for value in values if value not in own]
    return joined


def _recorded(document: Document) -> Iterator[tuple[Sequence[Span], str]]:
    """Yields the offsets of every part whose text the file records, with that text."""
    for start, end, text in document.proof:
        yield ((start, end),), text
    for annotation in document.annotations:
        for span in annotation.spans:
            if span.text is not None:
                yield span.parts or ((span.start, span.end),), span.text


def _unit_of(documents: Sequence[Document]) -> str:
    """Returns the unit in which most recorded texts are found, the first of UNITS if several."""
    matches = Counter(dict.fromkeys(UNITS, 0))
    for document in documents:
        if document.text.isascii():
            continue
        for unit in UNITS:
            places = _places(document.text, unit)
            for parts, text in _recorded(document):
                inner = [tuple(places.get(offset, -1) for offset in part) for part in parts]
                if all(low >= 0 and high >= 0 for low, high in inner):
                    matches[unit] += _is_same(" ".join(document.text[low:high] for low, high in inner), text)
    return max(UNITS, key=lambda unit: matches[unit])


def _places(text: str, unit: str) -> Mapping[int, int]:
    """Returns the character at each offset in a unit."""
    if unit == UNITS[0]:
        return {index: index for index in range(len(text) + 1)}
    found, at = {}, 0
    for index, character in enumerate(text):
        found[at] = index
        at += len(character.encode("utf-8", "surrogatepass")) if unit == UNITS[2] else 1 + (ord(character) > 0xFFFF)
    return found | {at: len(text)}


def _is_same(text: str, recorded: str) -> bool:
    """Whether two texts are equal except for spaces; some tools write line breaks as a backslash and n."""
    return text.split() in (recorded.split(), recorded.replace("\\n", "\n").split())


def _checked(document: Document, unit: str) -> list[RowError]:
    """Converts the offsets of a text to characters and trims spaces; returns what is wrong with them."""
    text, faults = document.text, []
    places = None if unit == UNITS[0] else _places(text, unit)
    for start, end, recorded in document.proof:
        low, high = (start, end) if places is None else (places.get(start, -1), places.get(end, -1))
        if not (0 <= low < high <= len(text) and _is_same(text[low:high], recorded)):
            where = f"the token '{_short(recorded)}' is not at {start}-{end} of the text"
            return [document.fault("tokens", f"{where}: correct its offsets")]
    for annotation in document.annotations:
        spans = []
        for span in annotation.spans:
            parts = span.parts or ((span.start, span.end),)
            reason = next((found for part in parts if (found := _offset_error(part, text, places, unit))), None)
            name = f"the span {span.label} {','.join(f'{low}-{high}' for low, high in parts)}"
            if reason is not None:
                faults.append(document.fault(SPANS, f"{name} {reason}", span.line))
                continue
            inner = [part if places is None else (places[part[0]], places[part[1]]) for part in parts]
            found = " ".join(text[low:high] for low, high in inner)
            if span.text is not None and not _is_same(found, span.text):
                faults.append(document.fault(SPANS, f"{name} {_difference(text, found, span.text)}", span.line))
                continue
            inner = [part for part in (_trimmed(text, low, high) for low, high in inner) if part[0] < part[1]]
            if not inner:
                faults.append(document.fault(SPANS, f"{name} contains only spaces", span.line))
                continue
            new = replace(span, start=inner[0][0], end=inner[-1][1], text=None, parts=())
            spans.append(replace(new, parts=tuple(inner)) if len(inner) > 1 else new)
        annotation.spans = spans
    return faults


def _offset_error(part: Span, text: str, places: Mapping[int, int] | None, unit: str) -> str | None:
    start, end = part
    size = len(text) if places is None else max(places)
    if start < 0 or start >= end:
        return "is empty, ends before it begins, or begins before the text"
    if end > size:
        fitting = next((other for other in UNITS if size < end <= max(_places(text, other))), None)
        hint = f" (it fits in {fitting}, but no text of a span shows that the file counts these)" if fitting else ""
        return f"ends after the text, which has {size:,} {unit}{hint}"
    if places is not None and not {start, end} <= set(places):
        return f"begins or ends inside a character ({unit})"
    return None


def _difference(text: str, found: str, recorded: str) -> str:
    where = ""
    if text.count(recorded) == 1:
        start = text.index(recorded)
        where = f", which is at {start}-{start + len(recorded)}"
    return f"is '{_short(found)}' in the text, but the file says '{_short(recorded)}'{where}: correct its offsets"


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _trimmed(text: str, start: int, end: int) -> Span:
    inner = text[start:end]
    left = len(inner) - len(inner.lstrip())
    return start + left, max(end - len(inner) + len(inner.rstrip()), start + left)


# -- from spans to tags ------------------------------------------------------------------------------------


def _without_overlaps(spans: Sequence[LabeledSpan], text: str) -> tuple[list[LabeledSpan], list[tuple[str, str]]]:
    """Returns spans in order without overlaps, and kind and description of each change.

    Of a discontinuous span the longest part is kept, of overlapping ones the longest, of equally long ones the first.
    """
    lost, whole = [], []
    for span in dict.fromkeys(spans):
        if not span.parts:
            whole.append(span)
            continue
        low, high = max(span.parts, key=lambda part: part[1] - part[0])
        name = f"{span.label} {'; '.join(text[start:end] for start, end in span.parts)!r} is discontinuous"
        lost.append(("discontinuous spans, the longest part kept", name))
        whole.append(replace(span, start=low, end=high, parts=()))
    kept: list[LabeledSpan] = []
    for span in sorted(dict.fromkeys(whole), key=lambda one: one.start - one.end):
        other = next((one for one in kept if one.start < span.end and span.start < one.end), None)
        if other is None:
            kept.append(span)
            continue
        first, second = (f"{one.label} '{_short(text[one.start : one.end])}'" for one in (span, other))
        lost.append(("overlapping spans, the longest kept", f"{first} overlaps {second}"))
    return sorted(kept, key=lambda one: one.start), lost


def _split_words(words: Sequence[Span], cuts: Sequence[int]) -> list[Span]:
    """Splits words at the cuts inside them; both are in order."""
    found, at = [], 0
    for begin, end in words:
        start = begin
        while at < len(cuts) and cuts[at] < end:
            if cuts[at] > start:
                found.append((start, cuts[at]))
                start = cuts[at]
            at += 1
        found.append((start, end))
    return found


def _bio_tags(words: Sequence[Span], spans: Sequence[LabeledSpan]) -> list[str]:
    """Returns the BIO tag of each word; spans begin and end at words, and are in order."""
    tags, at = [], 0
    for start, end in words:
        while at < len(spans) and spans[at].end <= start:
            at += 1
        if at == len(spans) or end <= spans[at].start:
            tags.append(OUTSIDE)
        else:
            is_first = start <= spans[at].start or not tags or words[len(tags) - 1][1] <= spans[at].start
            tags.append(f"{'B' if is_first else 'I'}-{spans[at].label}")
    return tags


def _lines(text: str, spans: Sequence[LabeledSpan]) -> list[Span]:
    """Returns the lines of a text; lines that a span joins stay together."""
    found, begin = [], 0
    for place in (index for index, character in enumerate(text) if character == "\n"):
        if any(span.start < place < span.end for span in spans):
            continue
        found.append((begin, place))
        begin = place + 1
    return [(low, high) for low, high in [*found, (begin, len(text))] if low < high]


def known_formats() -> str:
    """The names of the formats, for messages."""
    return ", ".join(one.name for one in FORMATS if one.name != "COCO")
