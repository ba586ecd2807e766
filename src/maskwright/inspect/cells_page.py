"""HTML report of interpretable units: units by rule, and text colored by their activations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..report import Block, ColoredText, Paragraph, Report, Table, write_report
from .cells import FoundUnit, UnitActivations
from .rules import RULES

EXCERPT_TOKENS = 1_200


def write_cells(
    path: Path, readings: UnitActivations, found: Sequence[FoundUnit], shown: Sequence[tuple[int, int]], model: str
) -> None:
    """Write the report. found: units by rule, best first; shown: additional units (layer from 1, unit from 0)."""
    rows = [
        [
            RULES[one.rule][1],
            f"{one.layer}:{one.unit}",
            f"{one.searched:+.3f}",
            confirmed_text(one),
            f"{one.random:.3f}",
        ]
        for one in found
    ]
    note = (
        "Correlation of a unit with a rule on the first half of the text, where it was selected among all units, and "
        "on the held-out second half. Random weights: absolute held-out correlation of the best unit of the same "
        "model before training."
    )
    blocks: list[Block] = [
        Table(
            ["Rule", "Layer:unit", "Searched", "Confirmed", "Random weights"],
            rows,
            title="Units by rule",
            note=note,
        )
    ]
    blocks += [_coloured(readings, *unit, about) for unit, about in _drawn(best_of(found), shown).items()]
    if readings.is_cut:
        blocks.append(Paragraph(f"The text was truncated to {len(readings.ends):,} tokens."))
    write_report(path, Report(f"cells of {model}", headline(found), blocks=blocks))


def _drawn(best: Sequence[FoundUnit], shown: Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return each (layer, unit) to show, once, with its description; the strongest first."""
    follows: dict[tuple[int, int], list[str]] = {}
    for one in sorted(best, key=lambda one: one.strength, reverse=True):
        follows.setdefault((one.layer, one.unit), []).append(f"{RULES[one.rule][1]} {confirmed_text(one)}")
    about = {unit: f"Correlation on this half of the text: {'; '.join(rules)}" for unit, rules in follows.items()}
    return {unit: "Requested unit" for unit in shown if unit not in about} | about


def headline(found: Sequence[FoundUnit]) -> str:
    """Return the result in one sentence. found: units by rule, best first."""
    if not found:
        return "Every rule is constant on this text, so no unit could be selected."
    one = max(best_of(found), key=lambda unit: (unit.is_confirmed, unit.strength))
    if not np.isfinite(one.confirmed):
        return "Every rule is constant on the second half of this text, so nothing is confirmed: pass a longer text."
    known = f"correlation {one.confirmed:+.2f} on held-out text, {one.random:.2f} with random weights"
    unit, tracked = f"unit {one.unit} of layer {one.layer}", RULES[one.rule][1]
    if not one.is_confirmed:
        return f"No unit is confirmed. The best is {unit}, for {tracked}: {known}."
    return f"{unit.capitalize()} tracks {tracked}: {known}."


def best_of(found: Sequence[FoundUnit]) -> list[FoundUnit]:
    """Return the first unit of each rule."""
    return [next(one for one in found if one.rule == rule) for rule in dict.fromkeys(one.rule for one in found)]


def confirmed_text(one: FoundUnit) -> str:
    """Format the held-out correlation, a dash if it is undefined."""
    return f"{one.confirmed:+.3f}" if np.isfinite(one.confirmed) else "-"


def _coloured(readings: UnitActivations, layer: int, unit: int, about: str) -> ColoredText:
    """Return an excerpt of the second half, colored by a unit's activation scaled to its maximum."""
    part = readings.half(True)
    begin = part.start or 0
    stop = min(begin + EXCERPT_TOKENS, len(readings.ends))
    values = readings.values[begin:stop, layer - 1, unit]
    most = max(float(np.abs(values).max(initial=0.0)), 1e-9)
    edges = [int(readings.ends[begin - 1]) if begin else 0, *readings.ends[begin:stop].tolist()]
    pieces = [
        (readings.text[start:end], float(value) / most)
        for start, end, value in zip(edges[:-1], edges[1:], values.tolist(), strict=True)
    ]
    title = f"Layer {layer}, unit {unit}"
    return ColoredText(pieces, title, f"{about}.", f"{-most:.2f}", f"{most:.2f}")
