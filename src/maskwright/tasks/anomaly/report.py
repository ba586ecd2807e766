"""Report blocks for anomaly detection: reconstruction errors, worst wrong predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...report import Block, Histogram, WorstError, WorstErrors
from ..base import Evaluation
from ..evaluation.errors import worst_errors
from ..report import WORST, TaskReport
from .task import Anomaly

BINS = 30


class AnomalyReport(TaskReport[Anomaly]):
    """Blocks of an anomaly detector."""

    def facts(self) -> dict[str, Any]:
        """Adds the tuned threshold."""
        threshold = self.task.threshold
        tuned = {} if threshold is None else self.threshold_facts("threshold on the error", threshold.value)
        return tuned | super().facts()

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the reconstruction errors of the dev examples by class, and the worst wrong predictions."""
        task, dev = self.task, self.data.dev
        values = evaluation.logits.squeeze(-1).double().numpy()
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
            for error in worst_errors(task, dev, evaluation.logits, WORST)
        ]
        note = "With the threshold tuned on these rows; the loss is the reconstruction error."
        return [*error_histograms(errors, threshold), WorstErrors(wrong, note=note)]


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
