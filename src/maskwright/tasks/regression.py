"""Regression: texts or pairs to one number, as in semantic textual similarity, by mean squared error.

Of pairs also a cross-encoder (Nogueira and Cho 2019), which ranks second texts for a first one: its output is the log
odds that the pair belongs together, by binary cross-entropy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from .similarity import kind_of, read_similar, target_of
from .specs import as_range
from .windows import LongTexts


@dataclass(eq=False)
class Regression(SequenceTask):
    """Predicts one number per row, in the unit of the targets: they are neither shifted nor scaled.

    long: window settings for long texts, None to truncate them; score_range: smallest and largest valid target
    (default: any). Predictions are not clipped to it. scale: of a cross-encoder the targets that are the probabilities
    0 and 1; its predictions are probabilities, its logits log odds.
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
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self.score_range, self.scale = as_range(self.score_range), as_range(self.scale)
        if self.scale is not None:
            self.main_metric, self.predicts = "spearman", "the relevance of the second text of a pair"

    @classmethod
    def from_rows(
        cls,
        train_rows: Rows,
        dev_rows: Rows = (),
        *,
        train_file: str | None = None,
        score_range: tuple[float, float] | None = None,
        encoder: str | None = None,
        **long: Any,
    ) -> Regression:
        require_rows(train_rows, train_file, "texts with numbers")
        task = cls(LongTexts.of(**long), score_range)
        if encoder != "cross":
            return task
        golds = task.read_labels(train_rows, train_file)[1]
        if min(golds) == max(golds):
            raise InputError(f"{train_file or 'The training data'} has one label: a cross-encoder needs two.")
        return cls(task.long, score_range, score_range or (min(golds), max(golds)))

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: ColumnNames = None,
        skip_bad_rows: bool = False,
        score_range: Sequence[float] | None = None,
        encoder: str | None = None,
    ) -> Table:
        """Reads texts or pairs with a number each, in the score range; see `text.readers.tables.read_table`.

        encoder: "cross" for pairs as `tasks.similarity` reads them; those that belong together have the number 1.
        """
        span = as_range(score_range)
        if encoder == "cross":
            return _read_pairs(path, columns, span, skip_bad_rows)
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

    @property
    def encoder(self) -> str | None:
        return None if self.scale is None else "cross"

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
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
        return torch.tensor(values, dtype=torch.float32)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self.scale is None:
            return F.mse_loss(logits.squeeze(-1), targets)
        return F.binary_cross_entropy_with_logits(logits.squeeze(-1), self._scaled(targets))

    def _scaled(self, targets: Tensor) -> Tensor:
        """The probabilities that a cross-encoder learns: float32 [rows]."""
        low, high = self.scale or (0.0, 1.0)
        return ((targets - low) / (high - low)).clamp(0, 1)

    def _numbers(self, logits: Tensor) -> Tensor:
        """What is predicted: float32 [rows]. logits: float32 [rows, 1]."""
        return logits.squeeze(-1) if self.scale is None else logits.squeeze(-1).sigmoid()

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        """Initializes the bias to the mean of the targets; training it there would take the first epochs."""
        if isinstance(model.head, SequenceClassificationHead) and examples.targets is not None:
            mean = examples.targets.mean() if self.scale is None else self._scaled(examples.targets).mean().logit()
            with torch.no_grad():
                model.head.classifier.bias.fill_(mean.item())

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        return [{"score": value} for value in self._numbers(logits).tolist()]

    def top_window(self, window_logits: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        return super().top_window(self._numbers(window_logits)[:, None], answer)

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        gold = (targets if self.scale is None else self._scaled(targets)).numpy()
        predicted = self._numbers(logits).numpy()
        found = scores.measure(("pearson", "spearman", "mse"), gold, predicted)
        is_relevance = self.scale is not None and set(gold.tolist()) == {0.0, 1.0}
        return found | ({"pr_auc": scores.pr_auc(gold, predicted)} if is_relevance else {})

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        parts = np.stack([labeled(examples).numpy(), self._numbers(logits).numpy()], axis=1).astype(np.float64)
        return ScoredPredictions("pearson", parts, lambda both: scores.pearson(both[:, 0], both[:, 1]))


def _read_pairs(path: Path | str, columns: ColumnNames, span: tuple[float, float] | None, skip_bad_rows: bool) -> Table:
    table = read_similar(path, columns=columns, span=span, skip_bad_rows=skip_bad_rows)
    kind = kind_of(table.rows)
    if kind == "texts":
        raise InputError(f"{path} contains single texts: a cross-encoder reads pairs (text, text_pair).")
    if kind == "scores":
        return table
    return replace(table, rows=[replace(row, label=f"{target_of(row, kind):g}") for row in table.rows])
