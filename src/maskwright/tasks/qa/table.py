"""Predictions of question answering as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.display import shorten
from ..table import TableRow


def answer_rows(answer: Mapping[str, Any], written: str = "") -> list[TableRow]:
    """Returns the answer span with its characters, or - for no answer."""
    place = "" if answer["start"] is None else f"{answer['start']}-{answer['end']} "
    return [TableRow("", place + (shorten(answer["answer"]) or "-"), answer["score"])]
