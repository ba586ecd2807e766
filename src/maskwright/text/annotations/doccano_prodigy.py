"""Parses JSON lines of Doccano and of Prodigy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..formats.records import json_kind
from .document import (
    MEDIA,
    Annotation,
    BadRecordError,
    Document,
    Parsed,
    Reading,
    annotator_names,
    is_offset,
    list_of,
    make_span,
    parse_objects,
    text_of,
)
from .sample import Sample

# -- Doccano -----------------------------------------------------------------------------------------------

_DOCCANO_TEXTS = ("text", "data")
_DOCCANO_LABELS = ("label", "labels", "entities", "annotations", "spans", "cats")
_DOCCANO_KEYS = ("id", "Comments", "comments", "annotation_approver", "meta", "relations")
_DOCCANO_ENTRIES = ({"start_offset", "end_offset"}, {"start", "end", "label"}, {"label", "user"})


def _may_be_triple(value: Any) -> bool:
    """Whether it is a triple, or one whose offsets are of another type, which is reported."""
    if not (isinstance(value, list) and len(value) >= 3):
        return False
    return all(is_offset(one) or isinstance(one, float) or str(one).isdecimal() for one in value[:2])


def is_doccano(sample: Sample) -> bool:
    """Whether the records are those of Doccano: a text or a file, and lists of labels."""
    if not sample.first or "tokens" in sample.first:
        return False
    if "filename" in sample.first and {"bbox", "segmentation", "label"} & set(sample.first):
        return True
    if not any(name in sample.first for name in _DOCCANO_TEXTS):
        return False
    rows = [row for row in sample.records if isinstance(row, dict)]
    lists = [row[name] for row in rows for name in _DOCCANO_LABELS if isinstance(row.get(name), list)]
    first: Any = next((value[0] for value in lists if value), None)
    if _may_be_triple(first) or isinstance(first, dict):
        return _may_be_triple(first) or any(names <= set(first) for names in _DOCCANO_ENTRIES)
    others = set(sample.first) - {*_DOCCANO_TEXTS, *_DOCCANO_LABELS, *_DOCCANO_KEYS}
    return bool(lists) and isinstance(first, (str, type(None))) and "id" in sample.first and not others


def parse_doccano(reading: Reading) -> Parsed:
    """JSON lines with `label`, `labels`, `entities`, `cats` or, of old versions, `annotations`."""

    def read(line: int, record: Mapping[str, Any]) -> Document:
        if "filename" in record and not any(name in record for name in _DOCCANO_TEXTS):
            raise reading.wrong_project(line, "this Doccano project labels images or audio, not texts", "filename")
        key = reading.roles.get("text") or next((name for name in _DOCCANO_TEXTS if name in record), "text")
        document = Document(text_of(record.get(key), key), line, str(reading.path))
        reading.left_out["relations"] += len(list_of(record.get("relations"), "relations"))
        by_user: dict[tuple[str, ...], Annotation] = {}
        given = [name for name in _DOCCANO_LABELS if record.get(name) is not None]
        for name in given:
            entries = [record[name]] if isinstance(record[name], (str, int)) else list_of(record[name], name)
            for entry in entries:
                user = annotator_names(entry.get("user")) if isinstance(entry, dict) else ()
                found = by_user.setdefault(user, Annotation(annotators=user))
                _take_doccano(found, entry, name, reading)
        if given:
            document.annotations = list(by_user.values()) or [Annotation()]
        return document

    yield from parse_objects(reading, read, "id")


def _take_doccano(annotation: Annotation, entry: Any, name: str, reading: Reading) -> None:
    """Adds an entry of a list of labels: [start, end, label], an object with offsets, or a class."""
    if isinstance(entry, list) and len(entry) >= 3:
        span = make_span(entry[0], entry[1], entry[2], name)
    elif isinstance(entry, dict) and ("start_offset" in entry or "start" in entry):
        start, end = (entry.get(f"{end}_offset", entry.get(end)) for end in ("start", "end"))
        span = make_span(start, end, entry.get("label"), name, entry.get("text"))
    else:
        label = entry.get("label") if isinstance(entry, dict) else entry
        if not isinstance(label, (str, int)) or isinstance(label, bool):
            raise BadRecordError(name, f"an entry is {json_kind(entry)}, not [start, end, label] or a class")
        if reading.roles.get("label") in (None, name):
            annotation.classes.setdefault(name, []).append(str(label))
        return
    if reading.roles.get("tag") in (None, name):
        annotation.spans.append(span)


# -- Prodigy -----------------------------------------------------------------------------------------------

_PRODIGY_MARKS = ("_task_hash", "_input_hash", "_view_id")


def is_prodigy(sample: Sample) -> bool:
    """Whether the records are tasks of Prodigy: its hashes, an answer, choices, or spans."""
    first = sample.first
    if any(mark in first for mark in _PRODIGY_MARKS):
        return True
    if "text" not in first:
        return False
    if first.get("answer") in ("accept", "reject", "ignore") or {"options", "accept"} <= set(first):
        return True
    rows = [row for row in sample.records if isinstance(row, dict)]
    spans = next((row["spans"] for row in rows if isinstance(row.get("spans"), list) and row["spans"]), None)
    return spans is not None and isinstance(spans[0], dict) and {"start", "end", "label"} <= set(spans[0])


def parse_prodigy(reading: Reading) -> Parsed:
    """JSON lines with `spans`, with `accept` of `options`, or with one `label`, and an `answer`."""
    tallies: Counter[str] = Counter()

    def read(line: int, record: Mapping[str, Any]) -> Document | None:
        if "text" not in record:
            media = next((key for key in MEDIA if key in record), "text")
            what = f"this Prodigy task labels {media}" if media != "text" else "this Prodigy task has no text"
            raise reading.wrong_project(line, what, media)
        answer = record.get("answer", "accept")
        if answer not in ("accept", "reject", "ignore"):
            raise BadRecordError("answer", f"is {str(answer)[:40]!r}, not accept, reject or ignore")
        key = record.get("_input_hash", record["text"])
        document = Document(text_of(record["text"], "text"), line, str(reading.path), key=key)
        for token in list_of(record.get("tokens"), "tokens"):
            if isinstance(token, dict) and is_offset(token.get("start")) and is_offset(token.get("end")):
                document.proof.append((token["start"], token["end"], str(token.get("text"))))
        who = record.get("_annotator_id") or record.get("_session_id")
        annotation = Annotation(annotators=annotator_names(who))
        label = record.get("label")
        is_binary = isinstance(label, str) and "accept" not in record and "spans" not in record
        if is_binary:
            document.is_partial = True
        if answer == "ignore" or (answer == "reject" and not is_binary):
            reading.left_out[f"{'ignored' if answer == 'ignore' else 'rejected'} answers"] += 1
            document.is_counted = True
            return document
        for span in list_of(record.get("spans"), "spans"):
            if not isinstance(span, dict):
                raise BadRecordError("spans", f"a span is {json_kind(span)}, not an object")
            annotation.spans.append(
                make_span(span.get("start"), span.get("end"), span.get("label", label), "spans", span.get("text"))
            )
        for name in ("relations", "arcs"):
            reading.left_out["relations"] += len(list_of(record.get(name), name))
        if record.get("_view_id") == "ner":
            tallies["ner"] += 1
            document.is_partial = True
        if "accept" in record:
            annotation.classes["accept"] = [str(one) for one in list_of(record["accept"], "accept")]
        elif isinstance(label, str) and not annotation.spans:
            annotation.classes["label"] = [label] if answer == "accept" else []
            annotation.rejected = [label] if answer == "reject" else []
        annotation.is_of_spans = "spans" in record or not (annotation.classes or annotation.rejected)
        document.annotations.append(annotation)
        return document

    yield from parse_objects(reading, read)
    if tallies["ner"]:
        reading.notes.append(
            f"{tallies['ner']:,} answers are about one span each (view 'ner'): words that nobody was asked about count "
            "as no entity"
        )
