"""HTML report of probes: accuracy and selectivity by layer."""

from __future__ import annotations

from pathlib import Path

from ..report import Block, Chart, Curves, Report, Series, Table, write_report
from ..report.content import Value
from .probe import ProbeResult

NOTE = (
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
        Curves(charts, title="Accuracy by layer", note=NOTE),
        Table([name.capitalize() for name in COLUMNS], probe_rows(found), title="Scores", strong=strong),
        Table(["Name", "Value"], facts, title="Data", right=["Value"]),
    ]
    write_report(path, Report(f"layer-wise probing of {model}", headline(found), blocks=blocks))


def probe_rows(found: ProbeResult) -> list[list[Value]]:
    """Return a row per layer with COLUMNS."""
    return [[one.layer, *(f"{getattr(one, name):.4f}" for name in COLUMNS[1:])] for one in found.layers]


def headline(found: ProbeResult) -> str:
    """Return the best layer in one sentence."""
    best, last = found.best, found.layers[-1].layer
    return (
        f"Layer {best.layer} of {last} has the highest accuracy: {best.accuracy:.1%} of the {found.unit} "
        f"({best.control:.1%} in the control task; majority label {found.majority:.1%})."
    )
