"""Parses exports of Label Studio, Doccano and Prodigy, and training data of spaCy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError
from ..formats.cells import LABEL_NAMES, TEXT_NAMES
from ..formats.files import bare_suffix, file_format
from ..formats.records import json_kind, read_records
from .document import (
    MEDIA,
    Annotation,
    BadRecordError,
    Document,
    LabeledSpan,
    Offsets,
    Parsed,
    Reading,
    Sample,
    aligned,
    annotator_names,
    id_place,
    is_offset,
    json_objects,
    json_values,
    list_of,
    make_span,
    make_spans,
    parse_each,
    text_of,
)

_REGIONS = ("labels", "hypertextlabels")
_LS_META = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "history")


def is_label_studio(sample: Sample) -> bool:
    """Whether the records are tasks of Label Studio: `data`, and annotations or predictions."""
    first = sample.first
    has_results = any(isinstance(first.get(key), list) for key in ("annotations", "completions", "predictions"))
    return isinstance(first.get("data"), dict) and has_results


def parse_label_studio(reading: Reading) -> Parsed:
    """Tasks with their annotations."""
    name = _text_field_of_tasks(reading)

    def read(line: int, task: Mapping[str, Any]) -> Document:
        data = task.get("data")
        if not isinstance(data, dict):
            raise BadRecordError("data", "is missing" if data is None else f"is {json_kind(data)}, not an object")
        key = "annotations" if "annotations" in task else "completions"
        given = [one for one in list_of(task.get(key), key) if isinstance(one, dict)]
        results = [
            one for entry in given for one in list_of(entry.get("result"), f"{key}.result") if isinstance(one, dict)
        ]
        text = _label_studio_text(reading, line, data, results, name)
        if task.get("predictions"):
            reading.left_out["predictions of a model"] += len(list_of(task["predictions"], "predictions"))
        document = Document(text, line, str(reading.path))
        for entry in given:
            if entry.get("was_cancelled") or entry.get("skipped"):
                reading.left_out["canceled annotations"] += 1
                document.is_counted = True
                continue
            annotation = _label_studio_annotation(reading, line, list_of(entry.get("result"), f"{key}.result"))
            annotation.annotators = annotator_names(entry.get("completed_by"))
            annotation.is_reference = entry.get("ground_truth") is True
            document.annotations.append(annotation)
        return document

    yield from parse_each(reading, json_objects(reading), read, id_place("task"))


def _text_field(
    reading: Reading,
    tasks: Sequence[tuple[Mapping[str, Any], Sequence[tuple[Mapping[str, Any], str]]]],
    names: Sequence[str],
) -> str | None:
    """Returns the field of the data that is the text, for the whole file; None if that is not known.

    It is that of `--columns text=NAME`, the one in which the spans are found, the one that the results name, one with
    a known name, or the only text. tasks: data of each task, and values of its results with the name of the field that
    they are about; names: fields that contain texts.
    """
    if "text" in reading.roles:
        return reading.roles["text"]
    exact, within, named = Counter[str](), Counter[str](), Counter[str]()
    for data, results in tasks:
        texts = {name: text for name in names if isinstance(text := data.get(name), str)}
        for value, to_name in results:
            named[to_name] += to_name in texts
            part, start, end = value.get("text"), value.get("start"), value.get("end")
            if isinstance(part, str) and part.strip():
                exact.update(name for name, text in texts.items() if _is_at(text, start, end, part))
                within.update(name for name, text in texts.items() if part in text)
    for counts in (exact, within, named):
        if counts.total():
            return max(counts, key=lambda name: counts[name])
    pairs = [pair for pair in TEXT_NAMES if set(pair) <= set(names)]
    return pairs[0][0] if pairs else names[0] if len(names) == 1 else None


def _is_at(text: str, start: Any, end: Any, part: str) -> bool:
    return is_offset(start) and is_offset(end) and text[start:end] == part


def _text_field_of_tasks(reading: Reading) -> str | None:
    """The field of the text in a file of tasks."""
    tasks: list[tuple[Mapping[str, Any], list[tuple[Mapping[str, Any], str]]]] = []
    names: dict[str, None] = {}
    for found in json_objects(reading):
        if isinstance(found, RowError) or not isinstance(found[1].get("data"), dict):
            continue
        data, results = found[1]["data"], []
        for entry in found[1].get("annotations", found[1].get("completions")) or []:
            given = entry.get("result") if isinstance(entry, dict) else None
            for result in given if isinstance(given, list) else []:
                if isinstance(result, dict) and isinstance(result.get("value"), dict):
                    results.append((result["value"], str(result.get("to_name"))))
        tasks.append((data, results))
        names |= dict.fromkeys(name for name, value in data.items() if isinstance(value, str))
    return _text_field(reading, tasks, list(names))


def _label_studio_text(
    reading: Reading, line: int, data: Mapping[str, Any], results: Sequence[Mapping[str, Any]], name: str | None
) -> str:
    """Returns the text of a task, in the field `name` of its data. Raises InputError for data without texts."""
    if name is None or (not isinstance(data.get(name), str) and "text" not in reading.roles):
        media = next((key for key in MEDIA if key in data), None)
        if media is not None:
            kinds = {str(one.get("type")) for one in results} - {*_REGIONS, "choices", "relation"}
            found = f" ({', '.join(sorted(kinds))})" if kinds else ""
            raise reading.wrong_project(
                line, f"this Label Studio project labels {media} files, not texts{found}", "data"
            )
        if any(isinstance(value, list) for value in data.values()):
            raise reading.wrong_project(line, "this Label Studio project labels dialogs or lists, not texts", "data")
    if name is None:
        listed = ", ".join(map(str, data)) or "none"
        raise InputError(
            f"{reading.path}:{line}: 'data': no key is known as the text, the keys are {listed}: name it with "
            "--columns text=NAME."
        )
    return text_of(data.get(name), f"data.{name}")


def _label_studio_annotation(reading: Reading, line: int, results: Sequence[Any]) -> Annotation:
    found = Annotation()
    for result in results:
        if not isinstance(result, dict):
            raise BadRecordError("annotations.result", f"an entry is {json_kind(result)}, not an object")
        kind, control = str(result.get("type")), str(result.get("from_name", "label"))
        value = result.get("value")
        if kind == "relation":
            reading.left_out["relations"] += 1
            continue
        if not isinstance(value, dict):
            raise BadRecordError("annotations.result.value", "is missing or no object")
        if kind.endswith("labels") and kind not in (*_REGIONS, "paragraphlabels"):
            raise reading.wrong_project(line, f"this Label Studio project labels images or recordings ({kind})", "type")
        if kind in _REGIONS:
            if reading.roles.get("tag") in (None, control):
                found.spans += _label_studio_regions(reading, line, kind, value)
        elif kind in ("choices", "taxonomy", "rating", "number"):
            if "start" in value or "end" in value:
                reading.left_out["classes of single spans"] += 1
                continue
            found.classes.setdefault(control, []).extend(_choices(value, f"annotations.result.{kind}"))
        elif kind == "paragraphlabels":
            raise reading.wrong_project(line, "this Label Studio project labels dialogs, not texts", "type")
        else:
            reading.left_out[f"results of type {kind}"] += 1
    return found


def _label_studio_regions(reading: Reading, line: int, kind: str, value: Mapping[str, Any]) -> Iterator[LabeledSpan]:
    start, end = value.get("start"), value.get("end")
    if isinstance(start, float) or "channel" in value:
        raise reading.wrong_project(line, "this Label Studio project labels times of audio", "value.start")
    if isinstance(start, str):
        raise BadRecordError(
            "value.start", f"a span begins at a place in HTML ({start}), not in the text: label a Text object"
        )
    labels = value.get("labels", value.get(kind))
    if not labels:
        reading.left_out["spans without a label"] += 1
        return
    for label in list_of(labels, "value.labels"):
        yield make_span(start, end, label, "value", value.get("text"))


def _choices(value: Any, column: str) -> list[str]:
    """Returns the chosen classes: a text, a number, a list of these, or an object of one of Label Studio's controls."""
    if value is None or value == "":
        return []
    if isinstance(value, dict):
        for key in ("choices", "taxonomy", "rating", "number", "choice"):
            if key in value:
                return _choices(value[key], column)
        raise BadRecordError(column, f"is an object without choices: {', '.join(map(str, value))[:80]}")
    if isinstance(value, list):
        if value and all(isinstance(one, list) for one in value):  # paths in a taxonomy
            return [" / ".join(map(str, one)) for one in value]
        return [label for one in value for label in _choices(one, column)]
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return [str(value).strip()]


def is_label_studio_min(sample: Sample) -> bool:
    """Whether the records are rows of JSON-MIN."""
    return _has_min_names(sample.first)


def is_label_studio_table(sample: Sample) -> bool:
    """Whether a table has the columns of Label Studio."""
    return _has_min_names(sample.header)


def _has_min_names(names: Iterable[str]) -> bool:
    return {"annotation_id"} < set(names) and bool({"annotator", "lead_time", "created_at"} & set(names))


def parse_label_studio_min(reading: Reading) -> Parsed:
    """JSON-MIN and CSV: one annotation in a row, and the task's data beside the results, by the name of the control."""
    if bare_suffix(reading.path) in (".json", ".jsonl", ".ndjson"):
        rows: Iterable[Any] = json_objects(reading)
    else:
        rows = _table_rows(reading)
    kept = list(rows)
    objects = [found[1] for found in kept if not isinstance(found, RowError)]
    text, spans, classes = _min_columns(reading, objects)

    def read(line: int, record: Mapping[str, Any]) -> Document:
        document = Document(text_of(record.get(text), text), line, str(reading.path), key=record.get("id"))
        annotation = Annotation(annotators=annotator_names(record.get("annotator")))
        for name in spans:
            for region in list_of(record.get(name) or None, name):
                if not isinstance(region, dict):
                    raise BadRecordError(name, f"a span is {json_kind(region)}, not an object")
                kind = next((kind for kind in _REGIONS if kind in region), "labels")
                annotation.spans += _label_studio_regions(reading, line, kind, region)
        for name in classes:
            annotation.classes[name] = _choices(record.get(name), name)
        if record.get("annotation_id") not in (None, ""):
            document.annotations.append(annotation)
        return document

    yield from parse_each(reading, kept, read, id_place("task"))


def _table_rows(reading: Reading) -> Iterator[tuple[int, Mapping[str, Any]] | RowError]:
    """The rows of a table as objects; cells with JSON lists or objects are parsed."""
    header: list[str] = []
    for record in read_records(reading.path, file_format(reading.path)):
        if record.faults:
            yield from record.faults
        elif not header:
            header = [cell.strip() for cell in record.cells]
        elif len(record.cells) != len(header):
            yield record.fault(None, f"has {len(record.cells)} columns, not {len(header)}")
        else:
            yield record.line, {name: _cell(value) for name, value in zip(header, record.cells, strict=True)}


def _cell(value: str) -> Any:
    if value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _min_columns(reading: Reading, rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str], list[str]]:
    """Returns the names of the text, of the columns with spans and of those with classes."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if "_data_text" in names and "text" not in reading.roles:
        text: str | None = "_data_text"
    else:
        cells = [[value for value in row.values() if _has_regions(value)] for row in rows]
        regions = [[(one, "") for value in row for one in value if isinstance(one, dict)] for row in cells]
        plain = [name for name in names if name not in _LS_META and any(isinstance(row.get(name), str) for row in rows)]
        text = _text_field(reading, list(zip(rows, regions, strict=True)), plain)
    if text is None or text not in names:
        media = next((name for name in names if name in MEDIA), None)
        if media is not None and "text" not in reading.roles:
            raise reading.wrong_project(1, f"this Label Studio project labels {media} files, not texts", media)
        what = f"there is no column '{text}'" if text else "no column is known as the text"
        raise InputError(f"{reading.path}: {what}, the columns are {', '.join(names)}: use --columns text=NAME.")
    others = [name for name in names if name not in (*_LS_META, text)]
    lists = [value for row in rows for name in others if isinstance(value := row.get(name), list)]
    if any(isinstance(one, dict) and {"x", "width"} <= set(one) for value in lists for one in value):
        raise reading.wrong_project(1, "this Label Studio project labels regions of images", text)
    spans = [name for name in others if any(_has_regions(row.get(name)) for row in rows)]
    if "tag" in reading.roles:
        spans = [reading.roles["tag"]]
    if "label" in reading.roles:
        if reading.roles["label"] not in names:
            listed = ", ".join(others) or "none"
            raise InputError(f"{reading.path} has no column '{reading.roles['label']}': the columns are {listed}.")
        return text, spans, [reading.roles["label"]] if reading.roles["label"] not in spans else []
    left = [name for name in others if name not in spans]
    sure = [name for name in left if any(isinstance(row.get(name), (dict, list)) and row[name] for row in rows)]
    known = [name for name in left if name.lower() in (*LABEL_NAMES, "sentiment", "class", "category", "choice")]
    return text, spans, sure or known or ([] if spans else left)


def _has_regions(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) and {"start", "end"} <= set(one) for one in value)


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

    yield from parse_each(reading, json_objects(reading), read, id_place("id"))


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
        annotation.spans += make_spans(record.get("spans"), "spans", "a span", texts=True, label=label)
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

    yield from parse_each(reading, json_objects(reading), read)
    if tallies["ner"]:
        reading.notes.append(
            f"{tallies['ner']:,} answers are about one span each (view 'ner'): words that nobody was asked about count "
            "as no entity"
        )


# -- spaCy ------------------------------------------------------------------------------------------------

_UNKNOWN = "words whose entity tag is unknown, left out of training and scores"


def is_spacy_v2(sample: Sample) -> bool:
    """Whether the records are documents with paragraphs of sentences."""
    parts = sample.first.get("paragraphs")
    return isinstance(parts, list) and all(isinstance(one, dict) and "qas" not in one for one in parts)


def parse_spacy_v2(reading: Reading) -> Parsed:
    """The JSON of version 2: documents with paragraphs, sentences and tokens."""

    def parts() -> Iterator[tuple[int, Any] | RowError]:
        count = 0
        for found in json_objects(reading):
            if isinstance(found, RowError):
                yield found
                continue
            for number, part in enumerate(found[1].get("paragraphs") or []):
                count += 1
                yield count, (f"document {found[1].get('id', '?')}, paragraph {number}", part)

    yield from parse_each(
        reading, parts(), lambda line, part: _spacy_paragraph(part[1], line, reading), lambda line, part: part[0]
    )


def _spacy_paragraph(part: Any, line: int, reading: Reading) -> Document:
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
    document = Document(text_of(text, "raw"), line, str(reading.path))
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
        annotation.spans += make_spans(triples, "entities", "an entity")
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
        annotation.spans += make_spans(ents, "ents", "an entity")
        _take_cats(annotation, record.get("cats"))
        annotation.is_of_spans = ents is not None
        if annotation.is_of_spans or annotation.classes:
            document.annotations.append(annotation)
        return document

    yield from parse_each(reading, json_objects(reading), read)


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

    def pairs() -> Iterator[tuple[int, Any] | RowError]:
        count = 0
        for found in json_values(reading.path):
            for pair in [found] if isinstance(found, RowError) else _pairs_in([found[1]]):
                count += not isinstance(pair, RowError)
                yield pair if isinstance(pair, RowError) else (count, pair)

    def read(line: int, pair: Any) -> Document | None:
        if pair is None:
            reading.left_out["empty entries"] += 1
            return None
        if not _is_pair(pair):
            raise BadRecordError("", f'is {json_kind(pair)}, not [text, {{"entities": [...]}}]')
        document = Document(text_of(pair[0], "text"), line, str(reading.path))
        annotation = Annotation(is_of_spans=bool({"entities", "spans"} & set(pair[1])))
        annotation.spans += make_spans(pair[1].get("entities", pair[1].get("spans")), "entities", "an entity")
        _take_cats(annotation, pair[1].get("cats"))
        document.annotations.append(annotation)
        return document

    yield from parse_each(reading, pairs(), read, lambda line, pair: f"pair {line}")


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

    def read(number: int, doc: Any) -> Document:
        document = Document(text_of(doc.text, ""), number, str(reading.path))
        document.words = [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
        annotation = Annotation()
        groups = dict(doc.spans)
        ents = doc.ents
        if group in groups or (not ents and len(groups) == 1):
            ents = groups[group] if group in groups else next(iter(groups.values()))
        elif groups:
            reading.left_out["spans in span groups"] += sum(map(len, groups.values()))
        annotation.spans += [make_span(one.start_char, one.end_char, one.label_, "ents") for one in ents]
        _take_cats(annotation, dict(doc.cats))
        has_tags = doc.has_annotation("ENT_IOB")
        if has_tags:
            tokens = [token for token in doc if token.ent_iob == 0 and not token.is_space]
            document.unknown = frozenset((token.idx, token.idx + len(token)) for token in tokens)
            reading.left_out[_UNKNOWN] += len(document.unknown)
        annotation.is_of_spans = has_tags or bool(annotation.spans)
        if annotation.is_of_spans or annotation.classes:
            document.annotations.append(annotation)
        return document

    yield from parse_each(reading, enumerate(docs, start=1), read, lambda number, doc: f"document {number}")
