"""Parses training data of spaCy: DocBin, JSON of versions 2 and 3, and pairs of text and annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError
from ..formats.records import json_kind
from .document import (
    Annotation,
    BadRecordError,
    Document,
    LabeledSpan,
    Offsets,
    Parsed,
    Reading,
    aligned,
    json_objects,
    json_values,
    list_of,
    make_span,
    parse_objects,
    text_of,
)
from .sample import Sample

_UNKNOWN = "words whose entity tag is unknown, left out of training and scores"


def is_spacy_v2(sample: Sample) -> bool:
    """Whether the records are documents with paragraphs of sentences."""
    parts = sample.first.get("paragraphs")
    return isinstance(parts, list) and all(isinstance(one, dict) and "qas" not in one for one in parts)


def parse_spacy_v2(reading: Reading) -> Parsed:
    """The JSON of version 2: documents with paragraphs, sentences and tokens."""
    count = 0
    for found in json_objects(reading):
        if isinstance(found, RowError):
            yield found
            continue
        for number, part in enumerate(found[1].get("paragraphs") or []):
            count += 1
            place = f"document {found[1].get('id', '?')}, paragraph {number}"
            try:
                document = _spacy_paragraph(part, reading)
            except BadRecordError as bad:
                yield RowError(str(reading.path), count, bad.column or None, f"{place}: {bad.reason}")
                continue
            document.line, document.place = count, place
            yield document


def _spacy_paragraph(part: Any, reading: Reading) -> Document:
    if not isinstance(part, dict):
        raise BadRecordError("", f"is {json_kind(part)}, not an object")
    tokens = [
        token
        for sentence in list_of(part.get("sentences"), "sentences")
        if isinstance(sentence, dict)
        for token in list_of(sentence.get("tokens"), "sentences.tokens")
        if isinstance(token, dict)
    ]
    forms = [str(token.get("orth", "")) for token in tokens]
    text = part.get("raw")
    if not isinstance(text, str):
        text = "".join(form + str(token.get("space", " ")) for form, token in zip(forms, tokens, strict=True)).rstrip()
    document = Document(text_of(text, "raw"), 0, str(reading.path))
    document.words = aligned(forms, document.text, "sentences.tokens") if tokens else None
    annotation = Annotation()
    tags = [token.get("ner") for token in tokens]
    triples = list_of(part.get("entities"), "entities")
    if any(tag not in (None, "", "-") for tag in tags) and document.words is not None:
        kept = [(word, tag) for word, tag, form in zip(document.words, tags, forms, strict=False) if form.strip()]
        document.unknown = frozenset(word for word, tag in kept if tag in (None, "", "-"))
        reading.left_out[_UNKNOWN] += len(document.unknown)
        annotation.spans += _biluo_spans([tag for _, tag in kept], [word for word, _ in kept])
    else:
        for entry in triples:
            if not isinstance(entry, list) or len(entry) < 3:
                raise BadRecordError("entities", "an entity is not [start, end, label]")
            annotation.spans.append(make_span(entry[0], entry[1], entry[2], "entities"))
    _take_cats(annotation, part.get("cats"))
    annotation.is_of_spans = bool(triples) or any(tag not in (None, "", "-") for tag in tags)
    if annotation.is_of_spans or annotation.classes:
        document.annotations.append(annotation)
    if document.words is not None:
        document.words = [word for word, form in zip(document.words, forms, strict=True) if form.strip()]
    return document


def _biluo_spans(tags: Sequence[Any], words: Sequence[Offsets]) -> list[LabeledSpan]:
    """Returns the spans of BILUO (or BIO) tags."""
    spans: list[LabeledSpan] = []
    open_label = ""
    for tag, (start, end) in zip(tags, words, strict=True):
        mark, _, label = str(tag or "O").partition("-")
        if not label or mark not in ("B", "I", "L", "U", "E", "S"):
            open_label = ""
        elif mark in ("I", "L", "E") and label == open_label:
            spans[-1] = LabeledSpan(spans[-1].start, end, label)
        else:
            spans.append(LabeledSpan(start, end, label))
        open_label = label if mark in ("B", "I") else ""
    return spans


def _take_cats(annotation: Annotation, cats: Any) -> None:
    """Adds the categories with a value of at least one half: {name: value} or [{"label", "value"}]."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(cats, dict):
        pairs = list(cats.items())
    elif isinstance(cats, list):
        pairs = [(one.get("label"), one.get("value")) for one in cats if isinstance(one, dict)]
    for name, value in pairs:
        if not isinstance(value, (bool, int, float)):
            raise BadRecordError("cats", f"the value of {str(name)[:40]!r} is {json_kind(value)}, not a number")
    if pairs:
        annotation.classes["cats"] = [str(name) for name, value in pairs if value >= 0.5]


def is_spacy_doc(sample: Sample) -> bool:
    """Whether the records have a text, and entities or categories."""
    first = sample.first
    if not isinstance(first.get("text"), str):
        return False
    return (isinstance(first.get("ents"), list) or isinstance(first.get("cats"), dict)) and "answer" not in first


def parse_spacy_doc(reading: Reading) -> Parsed:
    """What `Doc.to_json` returns."""

    def read(line: int, record: Mapping[str, Any]) -> Document:
        document = Document(text_of(record.get("text"), "text"), line, str(reading.path))
        annotation = Annotation()
        ents, groups, group = record.get("ents"), record.get("spans") or {}, reading.roles.get("tag")
        if isinstance(groups, dict) and (group in groups or (not ents and len(groups) == 1)):
            ents = groups[group] if group in groups else next(iter(groups.values()))
        for entity in list_of(ents, "ents"):
            if not isinstance(entity, dict):
                raise BadRecordError("ents", f"an entity is {json_kind(entity)}, not an object")
            annotation.spans.append(make_span(entity.get("start"), entity.get("end"), entity.get("label"), "ents"))
        _take_cats(annotation, record.get("cats"))
        annotation.is_of_spans = ents is not None
        if annotation.is_of_spans or annotation.classes:
            document.annotations.append(annotation)
        return document

    yield from parse_objects(reading, read)


def is_spacy_pairs(sample: Sample) -> bool:
    """Whether the records are pairs of a text and its annotations."""
    return any(_is_pair(one) for one in _pairs_in(sample.records[:1])) if sample.records else False


def _is_pair(value: Any) -> bool:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)):
        return False
    return bool({"entities", "cats", "spans"} & set(value[1]))


def _pairs_in(values: Iterable[Any]) -> Iterator[Any]:
    """Yields [text, {...}] pairs; of an object, those of its list `annotations`."""
    for value in values:
        nested = value.get("annotations") if isinstance(value, dict) and "classes" in value else None
        yield from nested if isinstance(nested, list) else [value]


def parse_spacy_pairs(reading: Reading) -> Parsed:
    """[text, {"entities": [[start, end, label]], "cats": {name: value}}], the training data of spaCy's examples."""
    count = 0
    for found in json_values(reading.path):
        if isinstance(found, RowError):
            yield found
            continue
        for pair in _pairs_in([found[1]]):
            count += 1
            if pair is None:
                reading.left_out["empty entries"] += 1
                continue
            try:
                if not _is_pair(pair):
                    raise BadRecordError("", f'is {json_kind(pair)}, not [text, {{"entities": [...]}}]')
                document = Document(text_of(pair[0], "text"), count, str(reading.path), f"pair {count}")
                annotation = Annotation(is_of_spans=bool({"entities", "spans"} & set(pair[1])))
                for entity in list_of(pair[1].get("entities", pair[1].get("spans")), "entities"):
                    if not isinstance(entity, list) or len(entity) < 3:
                        raise BadRecordError("entities", "an entity is not [start, end, label]")
                    annotation.spans.append(make_span(entity[0], entity[1], entity[2], "entities"))
                _take_cats(annotation, pair[1].get("cats"))
                document.annotations.append(annotation)
                yield document
            except BadRecordError as bad:
                yield RowError(str(reading.path), count, bad.column or None, f"pair {count}: {bad.reason}")


def parse_docbin(reading: Reading) -> Parsed:
    """A DocBin, through spaCy."""
    try:
        from spacy.tokens import DocBin
        from spacy.vocab import Vocab
    except ImportError:
        raise MissingExtraError("Reading .spacy files", "spacy") from None
    try:
        docs = list(DocBin().from_disk(reading.path).get_docs(Vocab()))
    except Exception as error:  # of zlib, msgpack or spaCy
        reason = str(error).strip().split("\n", 1)[0].rstrip(".") or type(error).__name__
        raise InputError(f"{reading.path} is not a readable DocBin ({reason}): save it again with spaCy.") from None
    group = reading.roles.get("tag")
    for number, doc in enumerate(docs, start=1):
        if not doc.text.strip():
            yield RowError(str(reading.path), number, None, "the text is empty")
            continue
        document = Document(doc.text, number, str(reading.path), f"document {number}")
        document.words = [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
        annotation = Annotation()
        groups = dict(doc.spans)
        ents = doc.ents
        if group in groups or (not ents and len(groups) == 1):
            ents = groups[group] if group in groups else next(iter(groups.values()))
        elif groups:
            reading.left_out["spans in span groups"] += sum(map(len, groups.values()))
        try:
            for one in ents:
                annotation.spans.append(make_span(one.start_char, one.end_char, one.label_, "ents"))
            _take_cats(annotation, dict(doc.cats))
        except BadRecordError as bad:
            yield document.fault(bad.column, bad.reason)
            continue
        has_tags = doc.has_annotation("ENT_IOB")
        if has_tags:
            tokens = [token for token in doc if token.ent_iob == 0 and not token.is_space]
            document.unknown = frozenset((token.idx, token.idx + len(token)) for token in tokens)
            reading.left_out[_UNKNOWN] += len(document.unknown)
        annotation.is_of_spans = has_tags or bool(annotation.spans)
        if annotation.is_of_spans or annotation.classes:
            document.annotations.append(annotation)
        yield document
