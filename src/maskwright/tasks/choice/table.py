"""Predictions of multiple choice as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.util import shorten
from ..table import TableRow, window_rows


def choice_rows(answer: Mapping[str, Any], written: str = "") -> list[TableRow]:
    """Returns the number and the text of the choice, and the top-scoring window of a long context."""
    return [TableRow("", f"{answer['label']} {shorten(answer['choice'])}", answer["score"]), *window_rows(answer)]
