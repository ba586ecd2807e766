"""Texts or pairs of texts to one number, as in semantic textual similarity, by mean squared error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..models.heads import SequenceClassificationHead
from ..models.model import Model
from ..text.tables import Row, Table, read_table
from . import metrics as scores
from .examples import Examples
from .long_texts import LONG_SETTINGS, LongTexts
from .sequence import SequenceTask


class Regression(SequenceTask):
    """One number for each row, in the unit of the targets: they are neither shifted nor scaled.

    long: how long texts are read, None where they are cut.
    """

    name: ClassVar[str] = "regression"
    head = "regression"
    settings: ClassVar[tuple[str, ...]] = LONG_SETTINGS
    main_metric = "pearson"

    def __init__(self, long: LongTexts | None = None) -> None:
        self.labels: list[str] = []
        self.long = long

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        train_file: str | None = None,
        dev_file: str | None = None,
        **long: Any,
    ) -> Regression:
        """Check the targets. Raises RowErrors for any that is no finite number, InputError for no rows.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        task = cls(LongTexts.of(**long))
        if not train_rows:
            raise InputError(f"{train_file or 'The training data'} has no row: a regression needs texts with numbers.")
        task.check(train_rows, train_file)
        task.check(dev_rows, dev_file)
        return task

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
    ) -> Table:
        """Texts or pairs with a number each; see `text.tables.read_table`."""
        return read_table(path, columns=columns, numeric=True, skip_bad_rows=skip_bad_rows)

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """pearson and spearman."""
        return ("pearson", "spearman")

    @property
    def num_labels(self) -> int:
        """Always 1."""
        return 1

    @property
    def problem_type(self) -> str:
        """regression."""
        return "regression"

    def target(self, label: str | None) -> float:
        """The number of a cell. Raises ValueError when it is missing, no number, or not finite."""
        if label is None:
            raise ValueError("is missing")
        try:
            value = float(label)
        except ValueError:
            raise ValueError(f"'{label}' is not a number") from None
        if not math.isfinite(value) or abs(value) > torch.finfo(torch.float32).max:
            raise ValueError(f"'{label}' is not a finite number")
        return value

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """float32 [rows]."""
        return torch.tensor(values, dtype=torch.float32)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error. logits: float32 [rows, 1]; targets: float32 [rows]."""
        return F.mse_loss(logits.squeeze(-1), targets)

    def prime(self, model: Model, examples: Examples) -> None:
        """Start from the mean of the targets: the bias would otherwise spend the first epochs on the way there."""
        if isinstance(model.head, SequenceClassificationHead) and examples.targets is not None:
            with torch.no_grad():
                model.head.classifier.bias.fill_(examples.targets.mean().item())

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"score": number} for each row."""
        return [{"score": value} for value in logits.squeeze(-1).tolist()]

    def loudest(self, heard: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """The window with the highest number."""
        window = int(heard[:, 0].argmax())
        return {"": (window, float(heard[window, 0]))}

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """pearson, spearman and mse."""
        gold, predicted = targets.numpy(), logits.squeeze(-1).numpy()
        return {
            "pearson": scores.pearson(gold, predicted),
            "spearman": scores.spearman(gold, predicted),
            "mse": scores.mse(gold, predicted),
        }

    def to_json(self) -> dict[str, Any]:
        """{"task": "regression"}, and "long" where texts are read in windows."""
        return {"task": self.name} if self.long is None else {"task": self.name, "long": self.long.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Regression:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
        return cls(LongTexts.from_json(facts))
