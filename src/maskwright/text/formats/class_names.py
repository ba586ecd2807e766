"""Class names of integer columns in Parquet files that the `datasets` library of Hugging Face wrote.

Its schema metadata "huggingface" hold the features of the data set; a `ClassLabel` has the names of the integers 0, 1,
2, ..., of a column or of the items of its lists. -1 is its missing label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_LISTS = ("Sequence", "List", "LargeList")
_MISSING = -1


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Returns the class names of each column that has them, from the metadata of an Arrow schema."""
    try:
        facts = json.loads((metadata or {}).get(b"huggingface", b"{}"))
        features = facts["info"]["features"]
        return {name: names for name, feature in features.items() if (names := _names(feature))}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _names(feature: Any) -> list[str] | None:
    """The names of a feature: {"names", "_type": "ClassLabel"}, or a list of such; [feature] in old versions."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in _LISTS:
        return _names(feature.get("feature"))
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and names and all(isinstance(name, str) for name in names) else None


def named_value(value: Any, names: Sequence[str]) -> tuple[Any, str | None]:
    """Returns the class name of an integer, or the names of a list of integers; or the value, and the reason."""
    if isinstance(value, list):
        found = [named_value(one, names) for one in value]
        return [name for name, _ in found], next((reason for _, reason in found if reason is not None), None)
    if value is None or isinstance(value, str) or value == _MISSING:
        return None if value == _MISSING else value, None
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value], None
    return value, f"{str(value)[:20]} is none of the {len(names)} classes that the file names"
