"""Parsing of one table cell as text or label, with a reason if it is invalid.

A label cell is one label, or a list of labels: a JSON list, a list as Python or numpy prints it, Label Studio's
`{"choices": [...]}`, or `a|b`. What only the whole column shows is decided in `label_columns`. A class has one
spelling: Unicode NFC, and 1 for 1.0.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

LABEL_SEPARATOR = "|"
_LONGEST_LIST = 100_000  # characters
NO_LABELS = LABEL_SEPARATOR  # an empty list, where an empty cell may be a missing label
_CHOICES = frozenset({"choices"})  # the only key of Label Studio's object
_WHOLE = re.compile(r"[-+]?\d+\.0+")
_ITEM = re.compile(
    r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[-+]?\d+(?:\.\d*)?|True|False)(?=[\s,\])}])\s*,?""", re.DOTALL
)


@dataclass(frozen=True)
class Rules:
    """Label validation rules.

    need_label: a label is required; numeric: it must be a finite number; labels: allowed values (None: any);
    multi_label: zero or more labels in a list or separated by `|`, None for as the cells have it (then an empty cell is
    "" and an empty list NO_LABELS, because only the column shows whether the label is missing); span: minimum and
    maximum of a number (None: any); is_text: labels are texts, which stay as they are.
    """

    need_label: bool = True
    numeric: bool = False
    labels: Collection[str] | None = None
    multi_label: bool | None = False
    span: tuple[float, float] | None = None
    is_text: bool = False


def json_kind(value: Any) -> str:
    """Describes the type of a JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), f"a value of type {type(value).__name__}"
    )


def read_text(cell: Any) -> tuple[str | None, str | None]:
    """Returns a text cell as (text, None), or (None, reason)."""
    if cell is None:
        return None, "the text is missing"
    if not isinstance(cell, str):
        return None, f"is {json_kind(cell)}, not text"
    if not cell.strip():
        return None, "the text is empty"
    if "\0" in cell:
        return None, "the text contains a NUL character"
    if not cell.isascii():
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError as error:
            return None, f"character {error.start + 1} is a lone surrogate, which is not valid text"
    return cell, None


def read_label(cell: Any, rules: Rules) -> tuple[str | None, str | None]:
    """Returns a label cell as (label, None), or (None, reason); (None, None) if missing and not required.

    Several labels are joined with `|`.
    """
    label, reason = _label_as_text(cell, rules)
    if reason is not None:
        return None, reason
    if not label:
        if cell is not None and (rules.multi_label or (rules.multi_label is None and rules.need_label)):
            return "", None
        return None, "the label is missing" if rules.need_label else None
    if rules.numeric:
        return label, number_error(label, rules.span)
    if rules.labels is not None:
        parts = label.split(LABEL_SEPARATOR) if rules.multi_label else [label]
        unknown = [part for part in parts if part not in rules.labels]
        if unknown:
            return None, unknown_label(unknown[0], rules.labels)
    return label, None


def unknown_label(label: str, labels: Collection[str]) -> str:
    """The reason why a label is none of `labels`."""
    known = ", ".join(sorted(labels)[:10]) + (", ..." if len(labels) > 10 else "")
    return f"unknown label '{label[:60]}' (known: {known})"


def one_spelling(label: str) -> str:
    """Returns the spelling of a class that stands for its others: Unicode NFC, and 1 for 1.0."""
    if not label.isascii():
        return unicodedata.normalize("NFC", label)
    return label.partition(".")[0] if _WHOLE.fullmatch(label) else label


def list_in(cell: Any) -> list[Any] | None:
    """Returns the list in a cell, None for one label: a list, an object of choices, or the text of one of them."""
    if isinstance(cell, dict) and cell.keys() == _CHOICES:
        return cell["choices"] if isinstance(cell["choices"], list) else [cell["choices"]]
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else None
    text = cell.strip()
    if not text or text[0] not in "[({" or text[-1] not in "])}":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        text = text.removeprefix("{'choices':").removesuffix("}").strip() if text.startswith("{'choices':") else text
        return _python_list(text)
    found = list_in(value) if isinstance(value, (list, dict)) else None
    return None if found is None or any(isinstance(one, (list, dict)) for one in found) else found


def _python_list(text: str) -> list[Any] | None:
    """The list that Python or numpy (without commas) printed, or a tuple or set of texts; None for other text."""
    items, place = [], 1
    while (found := _ITEM.match(text, place)) is not None:
        items.append(found[1])
        place = found.end()
    is_texts = bool(items) and all(item[0] in "'\"" for item in items)
    if text[place:].strip() not in ("]", *((")", "}") if is_texts else ())):
        return None
    return [_python_item(item) for item in items]


def _python_item(text: str) -> Any:
    if text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text == "True" if text[0] in "TF" else float(text) if "." in text else int(text)


def _label_as_text(cell: Any, rules: Rules) -> tuple[str, str | None]:
    """Returns the label as text ("" if missing), and the reason if it is invalid."""
    is_plain = rules.numeric or rules.is_text
    cells = None if is_plain else list_in(cell)
    if cells is not None:
        return _joined_labels(cells, rules)
    if isinstance(cell, float) and math.isnan(cell):
        return "", "the label is missing (NaN)" if rules.need_label else None
    if cell is not None and not isinstance(cell, (str, int, float)):
        return "", f"is {json_kind(cell)}, not a label"
    text = "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell).strip()
    if not text or is_plain:
        return text, read_text(text)[1] if text else None
    parts = [part.strip() for part in text.split(LABEL_SEPARATOR)] if rules.multi_label else [text]
    if not all(parts):
        return "", f"a label between two '{LABEL_SEPARATOR}' is empty"
    return LABEL_SEPARATOR.join(map(one_spelling, parts)), read_text(text)[1]


def _joined_labels(cells: list[Any], rules: Rules) -> tuple[str, str | None]:
    """Joins a list of labels to one text."""
    if rules.multi_label is False and len(cells) != 1:
        return "", "is a list of labels: pass --multi-label to read each as a label"
    parts = []
    for cell in cells:
        if isinstance(cell, (list, dict)):
            return "", f"a label in a list is {json_kind(cell)}"
        part, reason = _label_as_text(cell, replace(rules, multi_label=False, is_text=isinstance(cell, str)))
        if reason is not None:
            return "", reason
        if not part or LABEL_SEPARATOR in part:
            return "", f"a label in a list must not be empty or contain '{LABEL_SEPARATOR}'"
        parts.append(one_spelling(part))
    return LABEL_SEPARATOR.join(parts) or ("" if rules.multi_label or not rules.need_label else NO_LABELS), None


def number_error(label: str, span: tuple[float, float] | None = None) -> str | None:
    """Returns why a label is not a finite number within `span` (minimum, maximum; None: any), or None if it is."""
    try:
        value = float(label) if "_" not in label else math.nan
    except ValueError:
        comma = ": write a decimal point" if re.fullmatch(r"[-+]?\d+,\d+", label) else ""
        return f"'{label[:60]}' is not a number{comma}"
    if not math.isfinite(value):
        return f"'{label[:60]}' is not a finite number"
    if span is not None and not span[0] <= value <= span[1]:
        return f"{label[:60]} is not between {span[0]:g} and {span[1]:g}"
    return None
