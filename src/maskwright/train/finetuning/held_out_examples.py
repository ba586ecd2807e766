"""A few held-out rows that a model folder carries, so that the studio opens on texts of the model's task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_EXAMPLES = 3
MAX_TEXT, MAX_PAIR = 200, 1_000  # characters


def held_out_examples(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return up to three short rows, one of each label first: {"text", "text_pair", "label"}, without empty entries.

    rows: `AnyRow`s that the model was not trained on.
    """
    short = [row for row in rows if 0 < len(row.text) <= MAX_TEXT and len(row.text_pair or "") <= MAX_PAIR]
    firsts: dict[str, Any] = {}
    for row in short:
        firsts.setdefault(str(row.label), row)
    others = [row for row in short if firsts[str(row.label)] is not row]
    return [_shown(row) for row in [*firsts.values(), *others][:MAX_EXAMPLES]]


def _shown(row: Any) -> dict[str, Any]:
    label = row.label if isinstance(row.label, (str, int, float)) else None
    facts = {"text": row.text, "text_pair": row.text_pair, "label": label}
    return {name: value for name, value in facts.items() if value is not None}
