"""What the page of a fine-tuning run shows of rare classes and of anomalies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from ..tasks.anomaly import Anomaly
from ..tasks.classification import Classification
from ..tasks.errors import worst_errors
from ..tasks.examples import Examples
from .report import Block, Histogram, Table, WorstError, WorstErrors
from .report.numbers import percent

WORST, BINS = 12, 30


def imbalance_table(task: Classification, train: Examples) -> list[Block]:
    """Share and effective number of each class of the training rows, rarest first; nothing where no class is rare."""
    found = task.imbalance(train)
    if not found.rare:
        return []
    numbers, shares = found.effective_numbers, found.shares
    order = sorted(range(len(found.labels)), key=lambda place: (found.counts[place], found.labels[place]))
    rows = [
        (found.labels[place], found.counts[place], percent(shares[place]), f"{numbers[place]:,.0f}") for place in order
    ]
    note = (
        f"Rare: {', '.join(found.rare[:WORST])}. A constant answer would be right for "
        f"{percent(found.constant_accuracy)} of the rows, so accuracy says little. The effective number "
        "counts further rows of a class less and less "
        "(Cui et al. 2019, with beta 0.999)."
    )
    return [Table(["class", "rows", "share", "effective number"], rows, title="Rare classes", note=note)]


def error_histograms(
    errors: Mapping[str, np.ndarray], threshold: float | None = None, title: str = "Reconstruction errors"
) -> list[Block]:
    """One histogram for each class, all over the same bins. errors: name -> float [rows]; the largest hundredth of all
    errors falls into the last bin.
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
    """Errors of the dev rows by class, and the rows that are judged wrong."""
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
    note = "By the threshold that these rows chose; the loss is the reconstruction error."
    return [*error_histograms(errors, threshold), WorstErrors(wrong, note=note)]
