"""Parses exports of Label Studio: JSON, JSON-MIN, CSV and TSV."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...core.errors import InputError, RowError
from ..formats.column_names import LABEL_NAMES, TEXT_NAMES
from ..formats.files import bare_suffix, file_format
from ..formats.records import json_kind, read_records
from .document import (
    MEDIA,
    Annotation,
    BadRecordError,
    Document,
    LabeledSpan,
    Parsed,
    Reading,
    annotator_names,
    is_offset,
    json_objects,
    list_of,
    make_span,
    parse_objects,
    text_of,
)
from .sample import Sample

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

    yield from parse_objects(reading, read, "task")


def _text_field(
    reading: Reading,
    tasks: Sequence[tuple[Mapping[str, Any], Sequence[tuple[Mapping[str, Any], str]]]],
    names: Sequence[str],
) -> str | None:
    """Returns the field of the data that is the text, for the whole file; None if that is not known.

    It is that of `--columns text=NAME`, the one in which the spans are found, the one that the results name, one with
    a known name, or the only text. tasks: data of each task, and values of its results with the name of the field that
    they are about; names: fields that hold texts.
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
    for found in kept:
        if isinstance(found, RowError):
            yield found
            continue
        line, record = found
        place = f"task {record['id']}" if record.get("id") not in (None, "") else ""
        try:
            document = Document(text_of(record.get(text), text), line, str(reading.path), place, key=record.get("id"))
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
            yield document
        except BadRecordError as bad:
            yield RowError(str(reading.path), line, bad.column, f"{place}: {bad.reason}" if place else bad.reason)


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
