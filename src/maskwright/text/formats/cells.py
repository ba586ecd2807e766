"""Parsing of one table cell as text or label, with a reason if it is invalid."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from .records import json_kind

LABEL_SEPARATOR = "|"


@dataclass(frozen=True)
class Rules:
    """Label validation rules.

    need_label: a label is required; numeric: it must be a finite number; labels: allowed values (None: any);
    multi_label: zero or more labels separated by `|`; span: minimum and maximum of a number (None: any).
    """

    need_label: bool = True
    numeric: bool = False
    labels: Collection[str] | None = None
    multi_label: bool = False
    span: tuple[float, float] | None = None


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
    """Returns a label cell as (label, None), or (None, reason); (None, None) if missing and not required."""
    label, reason = _label_as_text(cell, rules)
    if reason is not None:
        return None, reason
    if not label:
        if rules.multi_label and cell is not None:
            return "", None
        return None, "the label is missing" if rules.need_label else None
    if rules.numeric:
        return label, number_error(label, rules.span)
    if rules.labels is not None:
        parts = label.split(LABEL_SEPARATOR) if rules.multi_label else [label]
        unknown = [part for part in parts if part not in rules.labels]
        if unknown:
            known = ", ".join(sorted(rules.labels)[:10]) + (", ..." if len(rules.labels) > 10 else "")
            return None, f"unknown label '{unknown[0][:60]}' (known: {known})"
    return label, None


def _label_as_text(cell: Any, rules: Rules) -> tuple[str, str | None]:
    """Returns the label as text ("" if missing), and the reason if it is invalid."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return "", None
    if isinstance(cell, (bool, int, float)):
        return str(cell).lower() if isinstance(cell, bool) else str(cell), None
    if isinstance(cell, list) and rules.multi_label:
        return _joined_labels(cell, rules)
    if not isinstance(cell, str):
        return "", f"is {json_kind(cell)}, not a label"
    parts = [part.strip() for part in cell.split(LABEL_SEPARATOR)] if rules.multi_label else [cell.strip()]
    if not all(parts):
        return "", f"a label between two '{LABEL_SEPARATOR}' is empty"
    return LABEL_SEPARATOR.join(parts), read_text(cell)[1]


def _joined_labels(cells: list[Any], rules: Rules) -> tuple[str, str | None]:
    """Joins a list of labels to one text."""
    parts = []
    for cell in cells:
        part, reason = _label_as_text(cell, replace(rules, multi_label=False))
        if reason is not None:
            return "", reason
        if not part or LABEL_SEPARATOR in part:
            return "", f"a label in a list must not be empty or contain '{LABEL_SEPARATOR}'"
        parts.append(part)
    return LABEL_SEPARATOR.join(parts), None


def number_error(label: str, span: tuple[float, float] | None = None) -> str | None:
    """Returns why a label is not a finite number within `span` (minimum, maximum; None: any), or None if it is."""
    try:
        value = float(label) if "_" not in label else math.nan
    except ValueError:
        return f"'{label[:60]}' is not a number"
    if not math.isfinite(value):
        return f"'{label[:60]}' is not a finite number"
    if span is not None and not span[0] <= value <= span[1]:
        return f"{label[:60]} is not between {span[0]:g} and {span[1]:g}"
    return None
