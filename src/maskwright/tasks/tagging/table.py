"""Predictions of token classification as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..table import TableRow


def word_rows(answer: Mapping[str, Any], written: str = "") -> list[TableRow]:
    """Returns one row per entity, or per word if the tags have no scheme, after a first one for the text."""
    if "entities" not in answer:
        each = zip(answer["tokens"], answer["tags"], answer["scores"], strict=True)
        return [TableRow("", "", None), *(TableRow(word, tag, score) for word, tag, score in each)]
    return [
        TableRow("", "" if answer["entities"] else "-", None),
        *(
            TableRow(f"{one['start']}-{one['end']} {one['text']}", one["type"], one["score"])
            for one in answer["entities"]
        ),
    ]
