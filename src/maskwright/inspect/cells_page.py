"""The page of a cell explorer: the units that follow each rule, and a text coloured by each of the best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..train.report import Block, ColouredText, Paragraph, Report, Table, write_report
from .cells import FoundUnit, Readings
from .rules import RULES

EXCERPT_TOKENS = 1_200
CONFIRMED = 0.3  # what is weaker is not said to tell anything


def write_cells(
    path: Path, readings: Readings, found: Sequence[FoundUnit], shown: Sequence[tuple[int, int]], model: str
) -> None:
    """Write the page. found: units by rule, best first; shown: further units (layer from 1, unit from 0) to draw."""
    rows = [
        [RULES[one.rule][1], f"{one.layer}:{one.unit}", f"{one.searched:+.3f}", confirmed_text(one)] for one in found
    ]
    note = (
        "Correlation of a unit with a rule on the first half of the text, where it was searched among all units, and "
        "on the second half, which the search has not seen."
    )
    blocks: list[Block] = [
        Table(["Rule", "Layer:unit", "Searched", "Confirmed"], rows, title="Units that follow a rule", note=note)
    ]
    blocks += [_coloured(readings, *unit, about) for unit, about in _drawn(best_of(found), shown).items()]
    if readings.is_cut:
        blocks.append(Paragraph(f"The first {len(readings.ends):,} tokens of the text were read."))
    write_report(path, Report(f"cells of {model}", headline(found), blocks=blocks))


def _drawn(best: Sequence[FoundUnit], shown: Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Each (layer, unit) to draw, once, and what it is drawn for; that which follows its rule best comes first."""
    follows: dict[tuple[int, int], list[str]] = {}
    for one in sorted(best, key=_strength, reverse=True):
        follows.setdefault((one.layer, one.unit), []).append(f"{RULES[one.rule][1]} {confirmed_text(one)}")
    about = {unit: f"Correlation on this half of the text: {'; '.join(rules)}" for unit, rules in follows.items()}
    return {unit: "As asked for" for unit in shown if unit not in about} | about


def headline(found: Sequence[FoundUnit]) -> str:
    """What was found, in a sentence. found: units by rule, best first."""
    if not found:
        return "No rule changes along this text, so no unit could be searched."
    one = max(best_of(found), key=_strength)
    if not np.isfinite(one.confirmed):
        return "No rule changes along the second half of this text, so nothing is confirmed: give a longer text."
    known = f"correlation {one.confirmed:+.2f} on text that the search has not seen"
    unit, tells = f"unit {one.unit} of layer {one.layer}", RULES[one.rule][1]
    if _strength(one) < CONFIRMED:
        return f"No unit is confirmed. The nearest is {unit}, for {tells}: {known}."
    return f"{unit.capitalize()} tells {tells}: {known}."


def best_of(found: Sequence[FoundUnit]) -> list[FoundUnit]:
    """The first unit of each rule."""
    return [next(one for one in found if one.rule == rule) for rule in dict.fromkeys(one.rule for one in found)]


def confirmed_text(one: FoundUnit) -> str:
    """Its correlation where it was not searched, a dash where nothing changes there."""
    return f"{one.confirmed:+.3f}" if np.isfinite(one.confirmed) else "-"


def _strength(unit: FoundUnit) -> float:
    """How far it is confirmed, below 0 where it turns round or nothing changes."""
    return float(np.nan_to_num(unit.confirmed * np.sign(unit.searched), nan=-1.0))


def _coloured(readings: Readings, layer: int, unit: int, about: str) -> ColouredText:
    """A stretch of the second half, coloured by a unit scaled to its largest value there."""
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
    return ColouredText(pieces, title, f"{about}.", f"{-most:.2f}", f"{most:.2f}")
