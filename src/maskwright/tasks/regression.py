"""Texts or pairs of texts to one number, as in semantic textual similarity, by mean squared error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.config import check
from ..core.errors import ConfigError, InputError, ModelFolderError
from ..models.heads import SequenceClassificationHead
from ..models.model import Model
from ..text.cells import number_fault
from ..text.tables import Row, Table, read_table
from . import metrics as scores
from .examples import Examples
from .long_texts import LONG_SETTINGS, LongTexts
from .sequence import SequenceTask


class Regression(SequenceTask):
    """One number for each row, in the unit of the targets: they are neither shifted nor scaled.

    long: how long texts are read, None where they are cut; score_range: the least and the greatest target that a row
    may have (None: any). Answers are as the network gives them, also beyond it.
    """

    name: ClassVar[str] = "regression"
    head = "regression"
    settings: ClassVar[tuple[str, ...]] = ("score_range", *LONG_SETTINGS)
    read_settings: ClassVar[tuple[str, ...]] = ("score_range",)
    main_metric = "pearson"

    def __init__(self, long: LongTexts | None = None, score_range: Sequence[float] | None = None) -> None:
        self.labels: list[str] = []
        self.long, self.score_range = long, as_range(score_range)

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        train_file: str | None = None,
        dev_file: str | None = None,
        score_range: Sequence[float] | None = None,
        **long: Any,
    ) -> Regression:
        """Check the targets. Raises RowErrors for any that is no finite number in the range, InputError for no rows.

        long, stride, pool, max_windows: see `LongTexts.of`.
        """
        task = cls(LongTexts.of(**long), score_range)
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
        score_range: Sequence[float] | None = None,
    ) -> Table:
        """Texts or pairs with a number each, in the range where one is given; see `text.tables.read_table`."""
        span = as_range(score_range)
        return read_table(path, columns=columns, numeric=True, span=span, skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """The same for scoring, in the range of training."""
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows, score_range=self.score_range)

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
        """The number of a cell. Raises ValueError when it is missing, no number, not finite, or out of the range."""
        if label is None:
            raise ValueError("is missing")
        fault = number_fault(label, self.score_range)
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
        """{"task": "regression"}, "long" where texts are read in windows, and "score_range" where it is given."""
        facts: dict[str, Any] = {"task": self.name}
        facts |= {} if self.long is None else {"long": self.long.to_json()}
        return facts if self.score_range is None else {**facts, "score_range": list(self.score_range)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Regression:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
        return cls(LongTexts.from_json(facts), stored_range(facts))


def as_range(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """The least and the greatest score; None where any number is one. Raises ConfigError for what is no range."""
    if ends is None:
        return None
    is_pair = isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2
    fits = is_pair and all(isinstance(end, (int, float)) and math.isfinite(end) for end in ends) and ends[0] < ends[1]
    check(fits, f"Setting 'score_range' is {ends!r}; it takes the least and the greatest score, as in 0 5.")
    return float(ends[0]), float(ends[1])


def stored_range(facts: Mapping[str, Any]) -> tuple[float, float] | None:
    """What `facts["score_range"]` says. Raises ModelFolderError when it is no range."""
    try:
        return as_range(facts.get("score_range"))
    except ConfigError as error:
        raise ModelFolderError(f"The model's maskwright.json says of its scores: {error}") from None
