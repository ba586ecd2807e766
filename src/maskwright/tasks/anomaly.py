"""Anomaly detection: an autoencoder on frozen sentence features learns one class; a large error marks an outlier.

The encoder is frozen, so the features of each text are computed once. Training uses only rows of the normal class;
`models.probes` computes the reconstruction error, and a text above a threshold is an anomaly. The threshold is
tuned on dev examples after training: for the best F1 if they contain both classes, otherwise at a quantile of the
normal ones. Rows used for tuning are scored with a threshold tuned on other rows (`rare.RareClass.thresholds`). With
windows, each window has features and an error, and a text has the mean or maximum of its errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, RowError, RowErrors
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..models.probes import AutoencoderHead
from ..objectives.outcome import LossSums
from ..text.readers.tables import Row, Table, read_texts
from .base import Baseline, ColumnNames, Evaluation, Rows, Task, TaskData, Unscored, require_rows
from .evaluation.compare import ScoredPredictions, mean, pr_auc
from .evaluation.rare import RareClass, Threshold, choose_threshold, rare_metrics, row_key
from .examples import Examples, Forward, compute, each, stacked
from .sequence import SequenceTask, labeled
from .windows import LongTexts

if TYPE_CHECKING:
    from ..models.model import Model

QUANTILE = 0.95


@dataclass(eq=False)
class Anomaly(SequenceTask):
    """Detects texts that differ from the normal class.

    normal: the class to learn, None if rows have no classes; quantile: fraction of normal dev examples below the
    threshold, if dev contains no anomalies; threshold: error above which a text is an anomaly, None until tuned.
    """

    name: ClassVar[str] = "anomaly"
    report: ClassVar[str] = "maskwright.tasks.report:AnomalyReport"
    head = "anomaly"
    num_labels = 0  # the single output has no label
    problem_type = None

    main_metric = "explained_variance"

    normal: str | None = None
    quantile: float = QUANTILE
    threshold: Threshold | None = None
    long: LongTexts | None = None

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InputError(f"The quantile of an anomaly detector is {self.quantile}; it must be between 0 and 1.")

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> Table:
        return read_texts(path, columns=columns, skip_bad_rows=skip_bad_rows)

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
        found = {row.label for row in rows if row.label is not None}
        if self.normal is None or not all(self.target(row.label) for row in rows):
            return None
        return Unscored.of_labels(found)

    @property
    def predicts(self) -> str:
        return "anomalies" if self.normal is None else f"which texts are not of the class {self.normal}"

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        found = super().notes(examples, name, max_length)
        if self.normal is None and any(row.label is not None for row in examples.rows):
            found.append(
                f"The labels of {name} are not scored: the model was trained without classes. To score them, train "
                "with --normal CLASS on labeled rows."
            )
        return found

    @classmethod
    def from_rows(
        cls,
        train_rows: Rows,
        dev_rows: Rows = (),
        *,
        normal: str | None = None,
        normal_quantile: float | None = None,
        train_file: str | None = None,
        **long: Any,
    ) -> Anomaly:
        """Builds the task. The main metric is pr_auc if dev has both classes, else explained variance of normal rows.

        normal: the normal class; default: the most common one of the training rows (ties: first by name); long: see
        `LongTexts.of`. Raises RowErrors if only some training rows have a class, InputError without normal rows.
        """
        counts = Counter(row.label for row in train_rows if row.label is not None)
        if counts and sum(counts.values()) < len(train_rows):
            bad = [RowError(train_file or row.file, row.line, "label", "is missing") for row in train_rows]
            raise RowErrors([error for error, row in zip(bad, train_rows, strict=True) if row.label is None])
        require_rows(train_rows, train_file, "texts of the normal class")
        if normal is not None and normal not in counts:
            known = sorted(counts)
            where = unknown_name("class", normal, known[:20]) if known else "The rows have no classes."
            raise InputError(f"--normal {normal}: no row of {train_file or 'the training data'} has it. {where}")
        if normal is None and counts:
            normal = min(counts, key=lambda label: (-counts[label], label))
        kinds = {normal is None or row.label in (None, normal) for row in dev_rows}
        task = cls(normal, QUANTILE if normal_quantile is None else normal_quantile, long=LongTexts.of(**long))
        if len(kinds) == 2:
            task.main_metric = "pr_auc"
        return task

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[Collection[str]]:
        return [(row.label,) if row.label else () for row in rows]

    def learns_from(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if not self.target(row.label)]

    def target(self, label: str | None) -> int:
        """1 for a class other than the normal one, otherwise 0; a row without a class is normal."""
        return int(self.normal is not None and label is not None and label != self.normal)

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64)

    def prepare(self, model: Model, examples: Examples) -> Examples:
        return replace(examples, features=self.features(model, examples))

    def features(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Tensor:
        """Mean of the last hidden states of each text or window: float32 [sequences, hidden], on the CPU."""

        return self.in_evaluation(model, lambda: stacked(compute(FirstVectors(model), examples, batch_tokens)))

    # -- training --------------------------------------------------------------------------------------------

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        head, features = _head(model), examples.features
        head.fit_scale((self.features(model, examples) if features is None else features).to(head.center.device))

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean error; targets are ignored. logits: float32 [rows, 1]; targets: int64 [rows]."""
        return logits.mean()

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        known = batch.labels.get("features")
        errors = self.pooled(model.logits(batch) if known is None else _head(model)(known), batch)  # [rows, 1]
        return LossSums({self.name: errors.sum()}, self.counts(batch))

    def tune_threshold(self, logits: Tensor, examples: Examples) -> None:
        errors, is_rare, keys = self._rows(logits, examples)
        if is_rare.any() and not is_rare.all():
            self.threshold = choose_threshold(errors, is_rare, keys)
        else:
            self.threshold = Threshold(float(np.quantile(errors, self.quantile)), frozenset(keys))

    def baseline(self, data: TaskData) -> Baseline:
        """pr_auc of a random order, the fraction of anomalies; the explained variance of a constant is 0."""
        if self.main_metric != "pr_auc":
            return super().baseline(data)
        return Baseline(float((labeled(data.dev) == 1).float().mean()), "random order")

    # -- answers ---------------------------------------------------------------------------------------------

    def compute(self, model: Model, examples: Examples, batch_tokens: int | None) -> list[Tensor]:
        features = examples.features
        if features is None:
            return super().compute(model, examples, batch_tokens)
        with torch.inference_mode():
            errors: Tensor = _head(model)(features.to(next(model.parameters()).device)).float().cpu()
        return list(errors.unbind())

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"score", "is_rare", "threshold"} for each row: its error, and whether it is above the threshold, None
        without one.
        """
        value = None if self.threshold is None else self.threshold.value
        return [
            {"score": error, "is_rare": None if value is None else error > value, "threshold": value}
            for error in logits.squeeze(-1).double().tolist()
        ]

    def joined(self, others: Sequence[Anomaly]) -> Anomaly:
        """Compares the mean error with the mean threshold. Raises InputError if the normal classes differ."""
        normals = {task.normal for task in (self, *others)}
        if len(normals) > 1:
            named = ", ".join(sorted(str(normal) for normal in normals))
            raise InputError(f"The models learned different normal classes ({named}) and cannot form an ensemble.")
        known = [task.threshold for task in (self, *others) if task.threshold is not None]
        joined = copy(self)
        joined.threshold = Threshold.mean(known) if known else None
        return joined

    def on_equal_terms(self, other: Anomaly) -> tuple[Task, Task]:
        if self.normal != other.normal:
            raise InputError(f"One model learned '{self.normal}' as normal and the other '{other.normal}'.")
        return self, other

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Loss of each row, float32 [rows]: the error, negated for anomalies."""
        return torch.where(labeled(examples) == 1, -logits.squeeze(-1), logits.squeeze(-1))

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """explained_variance of normal rows; with both classes also pr_auc, f1 and recall_at_precision_90.

        The loss is the mean error of normal rows. Predicting the mean of the training features has an error of about
        1, so 1 - error is the explained variance.
        """
        errors, is_rare, found = self.decide(logits, examples)
        normal = errors[~is_rare]
        loss = float(normal.mean()) if len(normal) else 0.0
        metrics = {"explained_variance": 1.0 - loss}
        if is_rare.any() or self.main_metric == "pr_auc":
            metrics = rare_metrics(is_rare, errors, found) | metrics
        return Evaluation(metrics, logits, loss)

    def decide(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors float64 [rows], whether each row is an anomaly, and whether it is predicted as one: bool [rows].

        Rows that the threshold was tuned on are split in two halves, each scored with the threshold of the other.
        """
        errors, is_rare, keys = self._rows(logits, examples)
        return errors, is_rare, errors > RareClass("", threshold=self.threshold).thresholds(errors, is_rare, keys)

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        return rare_metrics(targets.numpy() == 1, logits.squeeze(-1).double().numpy())

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        errors, is_rare, found = self.decide(logits, examples)
        if not is_rare.any():
            return ScoredPredictions("explained_variance", 1 - errors[:, None], mean)
        parts = np.stack([is_rare, errors], axis=1).astype(np.float64)
        return ScoredPredictions("pr_auc", parts, pr_auc, found == is_rare)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        return bool(answer["is_rare"]) == bool(labeled(examples)[row])

    def _rows(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Errors float64 [rows], whether each row is an anomaly bool [rows], and the row keys."""
        keys = [row_key(row.text, row.text_pair) for row in examples.rows]
        return logits.squeeze(-1).double().numpy(), labeled(examples).numpy() == 1, keys


@dataclass(frozen=True)
class FirstVectors(Forward):
    """The vector that the head reads: float32 [hidden]."""

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        return each(self.model.first(self.model.encode(batch).hidden, batch).float())


def _head(model: Model) -> AutoencoderHead:
    assert isinstance(model.head, AutoencoderHead)
    return model.head
