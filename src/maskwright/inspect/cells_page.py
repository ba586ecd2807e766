"""The page of a cell explorer: the units that follow each rule, and a text coloured by each of the best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..train.report import Block, ColouredText, Paragraph, Report, Table, write_report
from .cells import FoundUnit, Readings
from .rules import RULES

EXCERPT_TOKENS = 1_200


def write_cells(
    path: Path, readings: Readings, found: Sequence[FoundUnit], shown: Sequence[tuple[int, int]], model: str
) -> None:
    """Write the page. found: units by rule, best first; shown: further units (layer from 1, unit from 0) to draw."""
    best = [next(one for one in found if one.rule == rule) for rule in dict.fromkeys(one.rule for one in found)]
    rows = [
        [RULES[one.rule][1], f"{one.layer}:{one.unit}", f"{one.searched:+.3f}", f"{one.confirmed:+.3f}"]
        for one in found
    ]
    note = (
        "Correlation of a unit with a rule on the first half of the text, where it was searched among all units, and "
        "on the second half, which the search has not seen."
    )
    blocks: list[Block] = [
        Table(["Rule", "Layer:unit", "Searched", "Confirmed"], rows, title="Units that follow a rule", note=note)
    ]
    blocks += [_coloured(readings, *unit, about) for unit, about in _drawn(best, shown).items()]
    if readings.is_cut:
        blocks.append(Paragraph(f"The first {len(readings.ends):,} tokens of the text were read."))
    write_report(path, Report(f"cells of {model}", headline(best), blocks=blocks))


def _drawn(best: Sequence[FoundUnit], shown: Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Each (layer, unit) to draw, once, and what it is drawn for; that which follows its rule best comes first."""
    follows: dict[tuple[int, int], list[str]] = {}
    for one in sorted(best, key=_strength, reverse=True):
        follows.setdefault((one.layer, one.unit), []).append(f"{RULES[one.rule][1]} {one.confirmed:+.2f}")
    about = {unit: f"Correlation on this half of the text: {'; '.join(rules)}" for unit, rules in follows.items()}
    return {unit: "As asked for" for unit in shown if unit not in about} | about


def headline(best: Sequence[FoundUnit]) -> str:
    """What was found, in a sentence. best: the best unit of each rule."""
    if not best:
        return "No rule changes along this text, so no unit could be searched."
    one = max(best, key=_strength)
    return (
        f"Unit {one.unit} of layer {one.layer} tells {RULES[one.rule][1]}: correlation {one.confirmed:+.2f} on text "
        "that the search has not seen."
    )


def _strength(unit: FoundUnit) -> float:
    return abs(float(np.nan_to_num(unit.confirmed)))


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
