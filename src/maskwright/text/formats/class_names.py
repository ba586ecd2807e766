"""Columns of Parquet files whose values stand for others, as the `datasets` library of Hugging Face writes them.

Its schema metadata "huggingface" hold the features of the data set. A `ClassLabel` has the names of the integers 0, 1,
2, ..., of a column or of the items of its lists; -1 is its missing label. `Json` values are stored as JSON text, such
as labels that are a text in one row and a list in another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_LISTS = ("Sequence", "List", "LargeList")
_MISSING = -1


JSON_TEXT = ("JSON",)  # instead of class names: values are JSON


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, Sequence[str]]:
    """Returns the class names of each column that has them, or JSON_TEXT, from the metadata of an Arrow schema."""
    try:
        facts = json.loads((metadata or {}).get(b"huggingface", b"{}"))
        features = facts["info"]["features"]
        return {name: names for name, feature in features.items() if (names := _names(feature))}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _names(feature: Any) -> Sequence[str] | None:
    """The names of a feature: {"names", "_type": "ClassLabel"}, or a list of such; [feature] in old versions."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in _LISTS:
        return _names(feature.get("feature"))
    if feature.get("_type") == "Json":
        return JSON_TEXT
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and names and all(isinstance(name, str) for name in names) else None


def named_value(value: Any, names: Sequence[str]) -> tuple[Any, str | None]:
    """Returns the class name of an integer, the names of a list of integers, or what a JSON text holds.

    The second result is the reason why there is none, with the value as it is.
    """
    if names is JSON_TEXT:
        return _decoded(value)
    if isinstance(value, list):
        found = [named_value(one, names) for one in value]
        return [name for name, _ in found], next((reason for _, reason in found if reason is not None), None)
    if value is None or isinstance(value, str) or value == _MISSING:
        return None if value == _MISSING else value, None
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value], None
    return value, f"{str(value)[:20]} is none of the {len(names)} classes that the file names"


def _decoded(value: Any) -> tuple[Any, str | None]:
    if not isinstance(value, str):
        return value, None
    try:
        return json.loads(value), None
    except (ValueError, RecursionError) as error:
        return value, f"is not the JSON that the file declares: {error}"
