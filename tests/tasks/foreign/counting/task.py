"""The task: regression of a count, rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from maskwright.tasks.base import Baseline, TableRow, TaskData
from maskwright.tasks.examples import Examples
from maskwright.tasks.sequence import SequenceTask
from maskwright.text.readers.tables import Row, Table, read_table


@dataclass(eq=False)
class Counting(SequenceTask):
    """Predicts a count. tolerance: largest difference of a correct one."""

    name: ClassVar[str] = "count"
    report: ClassVar[str] = "counting.report:CountingReport"
    head = "regression"
    main_metric = "within_tolerance"
    num_labels = 1
    problem_type = "regression"

    tolerance: int = 0

    @classmethod
    def read(cls, path: Any, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False) -> Table:
        return read_table(path, columns=columns, numeric=True, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(cls, train_rows: Sequence[Row], dev_rows: Sequence[Row] = (), **options: Any) -> Counting:
        return cls(options.get("tolerance", 0))

    def target(self, label: str | None) -> float:
        if label is None:
            raise ValueError("is missing")
        return float(label)

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(logits.squeeze(-1), targets)

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        return [{"score": round(value)} for value in logits.squeeze(-1).tolist()]

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        return {"within_tolerance": float(self._is_within(logits.squeeze(-1).round(), targets).float().mean())}

    def baseline(self, data: TaskData) -> Baseline:
        assert data.train.targets is not None and data.dev.targets is not None
        found = self._is_within(data.train.targets.median().round(), data.dev.targets)
        return Baseline(float(found.float().mean()), "always the median count")

    def top_window(self, window_logits: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """Long texts are truncated."""
        return {"": (0, float(window_logits[0, 0]))}

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        assert examples.targets is not None
        return abs(float(examples.targets[row]) - answer["score"]) <= self.tolerance

    def table_rows(self, answer: Mapping[str, Any]) -> list[TableRow]:
        return [TableRow("", f"{answer['score']} cats", None)]

    def _is_within(self, found: Tensor, targets: Tensor) -> Tensor:
        return (found - targets).abs() <= self.tolerance
