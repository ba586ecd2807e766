"""The page of probes: accuracy and selectivity by layer."""

from __future__ import annotations

from pathlib import Path

from ..train.report import Block, Chart, Curves, Report, Series, Table, write_report
from ..train.report.content import Value
from .probe import Probed

NOTE = (
    "A linear classifier is trained on the frozen vectors of each layer; layer 0 is the embeddings. In the control "
    "task every word type has a random label, so that its accuracy is what the probe learns by heart (Hewitt and Liang "
    "2019). Selectivity is accuracy less that."
)
COLUMNS = ("layer", "accuracy", "control", "selectivity")


def write_probes(path: Path, found: Probed, model: str) -> None:
    """Write the page. model: its name, for the title."""
    layers = [one.layer for one in found.layers]
    flat = [found.majority] * len(layers)
    accuracy = [
        Series("labels", layers, [one.accuracy for one in found.layers]),
        Series("control task", layers, [one.control for one in found.layers]),
        Series("commonest label", layers, flat),
    ]
    selectivity = [Series("selectivity", layers, [one.selectivity for one in found.layers])]
    charts = [
        Chart(f"Right {found.unit} of the dev part", accuracy, x_label="layer", unit="percent"),
        Chart("Selectivity: labels less control task", selectivity, x_label="layer", unit="percent"),
    ]
    facts: list[list[Value]] = [
        [f"Training {found.unit}", f"{found.num_train:,}"],
        [f"Dev {found.unit}", f"{found.num_dev:,}"],
        ["Labels", len(found.labels)],
        ["Dev part whose type was trained on", f"{found.known:.1%}"],
        ["Commonest label", f"{found.majority:.1%}"],
        ["Commonest label of the control task", f"{found.control_majority:.1%}"],
    ]
    strong = [found.best.layer]
    blocks: list[Block] = [
        Curves(charts, title="Layer by layer", note=NOTE),
        Table([name.capitalize() for name in COLUMNS], probe_rows(found), title="Numbers", strong=strong),
        Table(["What", "How much"], facts, title="Data", right=["How much"]),
    ]
    write_report(path, Report(f"what the layers of {model} know", headline(found), blocks=blocks))


def probe_rows(found: Probed) -> list[list[Value]]:
    """A row for each layer under COLUMNS."""
    return [[one.layer, *(f"{getattr(one, name):.4f}" for name in COLUMNS[1:])] for one in found.layers]


def headline(found: Probed) -> str:
    """Which layer knows most, in a sentence."""
    best, last = found.best, found.layers[-1].layer
    return (
        f"Layer {best.layer} of {last} tells most: {best.accuracy:.1%} of the {found.unit} right, "
        f"{best.control:.1%} in the control task; the commonest label alone has {found.majority:.1%}."
    )
