"""HTML reports of units, gradients, lengths and probes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..inference.probing import ProbeResult
from ..report import Block, ColoredText, Report, Table, Unit, write_report
from ..report.charts import Chart, Curves, Series
from ..report.numbers import Value
from .cells import RULES, FoundUnit, UnitActivations
from .gradients import GradientDecay
from .lengths import ByLength

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
    if readings.is_cut:
        note += f" The text was truncated to {len(readings.ends):,} tokens."
    columns = ["Rule", "Layer:unit", "Searched", "Confirmed", "Random weights"]
    blocks: list[Block] = [Table(columns, rows, title="Units by rule", note=note)]
    blocks += [_colored(readings, *unit, about) for unit, about in _drawn(best_of(found), shown).items()]
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


def _colored(readings: UnitActivations, layer: int, unit: int, about: str) -> ColoredText:
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
    return ColoredText(pieces, f"{-most:.2f}", f"{most:.2f}", title=title, note=f"{about}.")


def write_gradients(path: Path, found: Sequence[GradientDecay]) -> None:
    """Write the report: norms by distance, and the remaining gradient of each model."""
    chart = Chart(
        "Norm of the gradient by distance",
        [Series(one.name, list(range(1, len(one.norms) + 1)), list(one.norms)) for one in found],
        x_label="tokens back",
        log_y=True,
    )
    note = "Gradient norm of a token's loss with respect to the hidden state at this distance, relative to distance 1."
    columns, rows = table(found)
    names = [name.capitalize() for name in columns]
    blocks: list[Block] = [Curves([chart], title="Gradient decay", note=note), Table(names, rows, title="Models")]
    write_report(path, Report("gradients by distance", gradients_headline(found), blocks=blocks))


def table(found: Sequence[GradientDecay]) -> tuple[list[str], list[list[Value]]]:
    """Return the names of the columns, and a row per model."""
    columns = ["model", "factor per step", "half-life", f"remaining after {len(found[0].norms)} tokens"]
    return columns, [[one.name, f"{one.factor:.3f}", half_text(one), f"{one.norms[-1]:.2g}"] for one in found]


def gradients_headline(found: Sequence[GradientDecay]) -> str:
    """Return the result in one sentence."""
    best = max(found, key=lambda one: one.norms[-1])
    last = len(best.norms)
    if len(found) == 1:
        return f"{best.name}: {best.norms[-1]:.2g} of the gradient remains after {last} tokens."
    worst = min(found, key=lambda one: one.norms[-1])
    return (
        f"After {last} tokens, {best.norms[-1]:.2g} of the gradient of {best.name} remains, and "
        f"{worst.norms[-1]:.2g} of {worst.name}."
    )


def half_text(one: GradientDecay) -> str:
    """Format the half-life."""
    return "no decay" if one.half is None else f"{one.half:.1f} tokens"


MEASURES: dict[str, tuple[str, Unit]] = {  # title and unit
    "bleu": ("BLEU", "number"),
    "token_accuracy": ("Token accuracy (teacher forcing)", "percent"),
    "exact": ("Exact match", "percent"),
}


def write_lengths(path: Path, found: Sequence[ByLength]) -> None:
    """Write the report: scores and number of texts by length. Entries with the same name are seeds of one model."""
    charts = []
    for measure, (title, unit) in MEASURES.items():
        lines = [(one, getattr(one, measure)) for one in found]
        series = [Series(one.name, list(one.words), list(values)) for one, values in lines if values is not None]
        charts.append(Chart(title, series, x_label="source words", unit=unit))
    first = found[0]
    rows: list[list[Value]] = [[f"{words:.1f}", count] for words, count in zip(first.words, first.rows, strict=True)]
    sizes: list[list[Value]] = [
        [name, f"{count:,}"] for name, count in {one.name: one.num_parameters for one in found}.items()
    ]
    blocks: list[Block] = [
        Curves(charts, title="Scores by length"),
        Table(["Model", "Parameters"], sizes, title="Models"),
        Table(["Mean source words", "Texts"], rows, title="Groups"),
    ]
    write_report(path, Report("translation by source length", lengths_headline(found), blocks=blocks))


def lengths_headline(found: Sequence[ByLength]) -> str:
    """Return the scores of the shortest and longest sources in one sentence."""
    first = found[0]
    if len(first.words) == 1:
        return f"All sources are about {first.words[0]:.0f} words long: pass texts of several lengths to compare them."
    span = f"From {first.words[0]:.0f} to {first.words[-1]:.0f} source words"
    measure = "token accuracy" if first.bleu is None else "BLEU"
    parts = []
    for name in dict.fromkeys(one.name for one in found):
        scores = [one.token_accuracy if one.bleu is None else one.bleu for one in found if one.name == name]
        start, end = (sum(one[index] for one in scores) / len(scores) for index in (0, -1))
        parts.append(f"{name} goes from {_shown(start, measure)} to {_shown(end, measure)}")
    return f"{span}, {measure}: {'; '.join(parts)}."


def _shown(value: float, measure: str) -> str:
    return f"{value:.1f}" if measure == "BLEU" else f"{value:.3f}"


PROBE_NOTE = (
    "A linear classifier is trained on the frozen embeddings of each layer; layer 0 is the embedding layer. In the "
    "control task every word type has a random label, so its accuracy measures memorization (Hewitt and Liang 2019). "
    "Selectivity is accuracy minus control accuracy."
)
COLUMNS = ("layer", "accuracy", "control", "selectivity")


def write_probes(path: Path, found: ProbeResult, model: str) -> None:
    """Write the report. model: its name, for the title."""
    layers = [one.layer for one in found.layers]
    flat = [found.majority] * len(layers)
    accuracy = [
        Series("labels", layers, [one.accuracy for one in found.layers]),
        Series("control task", layers, [one.control for one in found.layers]),
        Series("majority label", layers, flat),
    ]
    selectivity = [Series("selectivity", layers, [one.selectivity for one in found.layers])]
    charts = [
        Chart(f"Dev accuracy ({found.unit})", accuracy, x_label="layer", unit="percent"),
        Chart("Selectivity: accuracy minus control", selectivity, x_label="layer", unit="percent"),
    ]
    facts: list[list[Value]] = [
        [f"Training {found.unit}", f"{found.num_train:,}"],
        [f"Dev {found.unit}", f"{found.num_dev:,}"],
        ["Labels", len(found.labels)],
        ["Dev examples with a known type", f"{found.known:.1%}"],
        ["Majority label", f"{found.majority:.1%}"],
        ["Majority label of the control task", f"{found.control_majority:.1%}"],
    ]
    strong = [found.best.layer]
    blocks: list[Block] = [
        Curves(charts, title="Accuracy by layer", note=PROBE_NOTE),
        Table([name.capitalize() for name in COLUMNS], probe_rows(found), title="Scores", strong=strong),
        Table(["Name", "Value"], facts, title="Data", right=["Value"]),
    ]
    write_report(path, Report(f"layer-wise probing of {model}", probe_headline(found), blocks=blocks))


def probe_rows(found: ProbeResult) -> list[list[Value]]:
    """Return a row per layer with COLUMNS."""
    return [[one.layer, *(f"{getattr(one, name):.4f}" for name in COLUMNS[1:])] for one in found.layers]


def probe_headline(found: ProbeResult) -> str:
    """Return the best layer in one sentence."""
    best, last = found.best, found.layers[-1].layer
    return (
        f"Layer {best.layer} of {last} has the highest accuracy: {best.accuracy:.1%} of the {found.unit} "
        f"({best.control:.1%} in the control task; majority label {found.majority:.1%})."
    )
