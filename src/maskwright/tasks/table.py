"""Predictions as rows of a table, which `maskwright predict` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.util import on_one_line


class TableRow(NamedTuple):
    """One row. what: part of the text that it is about, "" in the first row; score: None if there is none."""

    what: str
    result: str
    score: float | None


def label_rows(answer: Mapping[str, Any], written: str = "") -> list[TableRow]:
    """Returns the rows of a label, of several labels, of a score, or of a text that was generated.

    written: key of the generated text, "" if there is none. Further rows name the top-scoring window of a long text.
    """
    if written:
        return [TableRow("", on_one_line(answer[written]), answer["score"])]
    if answer.get("is_rare") is not None:
        label = "rare" if answer["is_rare"] else "normal"
    else:
        label = answer.get("label", ", ".join(answer.get("labels") or [])) or ("-" if "labels" in answer else "")
    label = "(abstained)" if answer.get("abstained") else label
    return [TableRow("", label, answer.get("score")), *window_rows(answer)]


def window_rows(answer: Mapping[str, Any]) -> list[TableRow]:
    """Returns the top-scoring window of a long text, one row per predicted label."""
    found = answer.get("loudest", {})
    return [
        TableRow(
            f"window {place['window'] + 1} of {place['windows']}, characters {place['start']}-{place['end']}",
            label,
            place["score"],
        )
        for label, place in ({"": found} if "window" in found else found).items()
    ]
