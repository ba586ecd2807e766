"""Report blocks for class imbalance and anomaly detection."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from ...report import Block, Histogram, Table, WorstError, WorstErrors
from ...report.numbers import percent
from ..anomaly.task import Anomaly
from ..classification.task import Classification
from ..rows.examples import Examples
from .errors import worst_errors

WORST, BINS = 12, 30


def imbalance_table(task: Classification, train: Examples) -> list[Block]:
    """Fraction and effective number of each training class, rarest first; empty if no class is rare."""
    found = task.imbalance(train)
    if not found.rare:
        return []
    numbers, shares = found.effective_numbers, found.shares
    order = sorted(range(len(found.labels)), key=lambda place: (found.counts[place], found.labels[place]))
    rows = [
        (found.labels[place], found.counts[place], percent(shares[place]), f"{numbers[place]:,.0f}") for place in order
    ]
    note = (
        f"Rare: {', '.join(found.rare[:WORST])}. The majority-class baseline is correct for "
        f"{percent(found.constant_accuracy)} of the rows, so accuracy is not informative. Effective number of samples: "
        "Cui et al. 2019, with beta 0.999."
    )
    return [Table(["class", "rows", "share", "effective number"], rows, title="Rare classes", note=note)]


def error_histograms(
    errors: Mapping[str, np.ndarray], threshold: float | None = None, title: str = "Reconstruction errors"
) -> list[Block]:
    """One histogram per class over the same bins. errors: name -> float [rows]; errors above the 99th percentile are in
    the last bin.
    """
    every = np.concatenate(list(errors.values())) if errors else np.zeros(0)
    if not len(every):
        return []
    high = max(float(np.quantile(every, 0.99)), 0.0 if threshold is None else threshold)
    low = float(every.min())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    marks = {} if threshold is None else {"threshold": threshold}
    return [
        Histogram(
            edges.tolist(),
            np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0].tolist(),
            title=f"{title}: {name}",
            x_label="mean squared error",
            y_label="rows",
            marks=marks,
        )
        for name, values in errors.items()
        if len(values)
    ]


def anomaly_blocks(task: Anomaly, dev: Examples, logits: Tensor) -> list[Block]:
    """Reconstruction errors of the dev examples by class, and the worst wrong predictions."""
    values = logits.squeeze(-1).double().numpy()
    names = np.array([row.label if row.label is not None else "normal" for row in dev.rows], dtype=object)
    normal = task.normal if task.normal is not None else "normal"
    order = sorted(set(names), key=lambda name: (name != normal, name))
    errors = {str(name): values[names == name] for name in order}
    threshold = None if task.threshold is None else task.threshold.value
    wrong = [
        WorstError(
            error["text"],
            str(error["gold"] if error["gold"] is not None else "normal"),
            "rare" if error["is_rare"] else "normal",
            loss=error["score"],
            text_pair=error["text_pair"],
            line=error["line"],
        )
        for error in worst_errors(task, dev, logits, WORST)
    ]
    note = "With the threshold tuned on these rows; the loss is the reconstruction error."
    return [*error_histograms(errors, threshold), WorstErrors(wrong, note=note)]
