"""Regression: texts or pairs to one number, as in semantic textual similarity, by mean squared error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError, RowErrors
from ..models.heads import SequenceClassificationHead
from ..models.model import Model
from ..text.formats.cells import number_error
from ..text.readers.tables import Row, Table, read_table
from .base import ColumnNames, Rows, Unscored, require_rows
from .evaluation import metrics as scores
from .evaluation.compare import ScoredPredictions
from .examples import Examples
from .sequence import SequenceTask, labeled
from .specs import as_range
from .windows import LongTexts


@dataclass(eq=False)
class Regression(SequenceTask):
    """Predicts one number per row, in the unit of the targets: they are neither shifted nor scaled.

    long: window settings for long texts, None to truncate them; score_range: smallest and largest valid target
    (default: any). Predictions are not clipped to it.
    """

    name: ClassVar[str] = "regression"
    report: ClassVar[str] = "maskwright.tasks.report:RegressionReport"
    head = "regression"
    main_metric = "pearson"
    num_labels = 1
    problem_type = "regression"
    predicts = "numbers"
    deciding_metrics = ("pearson", "spearman")

    long: LongTexts | None = None
    score_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self.score_range = as_range(self.score_range)

    @classmethod
    def from_rows(
        cls,
        train_rows: Rows,
        dev_rows: Rows = (),
        *,
        train_file: str | None = None,
        score_range: tuple[float, float] | None = None,
        **long: Any,
    ) -> Regression:
        """Builds the task. Raises InputError if there are no rows. long: see `LongTexts.of`."""
        require_rows(train_rows, train_file, "texts with numbers")
        return cls(LongTexts.of(**long), score_range)

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: ColumnNames = None,
        skip_bad_rows: bool = False,
        score_range: Sequence[float] | None = None,
    ) -> Table:
        """Reads texts or pairs with a number each, in the score range; see `text.readers.tables.read_table`."""
        span = as_range(score_range)
        try:
            return read_table(path, columns=columns, numeric=True, span=span, skip_bad_rows=skip_bad_rows)
        except RowErrors as error:
            first = error.rows[0]
            if error.num_good == 0 and all(row.reason.endswith("is not a number") for row in error.rows):
                raise InputError(
                    f"{first.file} has no label that is a number (line {first.line}: {first.reason}). For classes run "
                    "maskwright finetune classification; to use another column pass --columns label=NAME."
                ) from None
            raise

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
        """Returns a reason if no row has a number."""
        found = {row.label for row in rows if row.label is not None}
        if not found or any(number_error(label) is None for label in found):
            return None
        return Unscored.of_labels(found)

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[Collection[str]]:
        """The decile of each number; with fewer than 200 rows, fewer such parts."""
        numbers = np.array([float(row.label or 0) for row in rows])
        parts = max(min(10, len(rows) // 20), 1)
        edges = np.quantile(numbers, np.arange(1, parts) / parts)
        return [(str(part),) for part in np.searchsorted(edges, numbers, side="right").tolist()]

    def target(self, label: str | None) -> float:
        """Parses the number of a cell. Raises ValueError if it is missing, not a finite number, or out of range."""
        if label is None:
            raise ValueError("is missing")
        fault = number_error(label, self.score_range)
        if fault is not None:
            raise ValueError(fault)
        if abs(float(label)) > torch.finfo(torch.float32).max:
            raise ValueError(f"'{label}' is not a finite number")
        return float(label)

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """float32 [rows]."""
        return torch.tensor(values, dtype=torch.float32)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error. logits: float32 [rows, 1]; targets: float32 [rows]."""
        return F.mse_loss(logits.squeeze(-1), targets)

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        """Initializes the bias to the mean of the targets; training it there would take the first epochs."""
        if isinstance(model.head, SequenceClassificationHead) and examples.targets is not None:
            with torch.no_grad():
                model.head.classifier.bias.fill_(examples.targets.mean().item())

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"score": number} for each row."""
        return [{"score": value} for value in logits.squeeze(-1).tolist()]

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        gold, predicted = targets.numpy(), logits.squeeze(-1).numpy()
        return scores.measure(("pearson", "spearman", "mse"), gold, predicted)

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        parts = np.stack([labeled(examples).numpy(), logits.squeeze(-1).numpy()], axis=1).astype(np.float64)
        return ScoredPredictions("pearson", parts, lambda both: scores.pearson(both[:, 0], both[:, 1]))
