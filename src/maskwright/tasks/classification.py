"""Texts or pairs of texts to classes: one of several (softmax), or any number of them (sigmoid, multi-label).

Devlin et al. 2019, section 4.1: log(softmax(C W^T)) on the pooled first token.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError, ModelFolderError, RowError, RowErrors
from ..core.registry import unknown_name
from ..text.cells import LABEL_SEPARATOR
from ..text.tables import Row, Table, read_table
from . import metrics as scores
from .base import Evaluation
from .calibration import Decisions, Temperature, calibration_errors, honest_probabilities, row_keys
from .ensemble import mean_probabilities
from .examples import Examples, as_logits
from .long_texts import LONG_SETTINGS, LongTexts
from .sequence import SequenceTask

THRESHOLD = 0.5  # a label of several applies from this probability


class Classification(SequenceTask):
    """Classes by name.

    labels: in the order of the head's outputs; with two, the second is the positive class of `f1`;
    multi_label: a row may have any number of labels; class_weights: one factor for each label on the loss of
    its rows (single label) or of its positive decisions (multi-label), None for 1; long: how long texts are read,
    None where they are cut.
    """

    name: ClassVar[str] = "classification"
    head = "classification"
    settings: ClassVar[tuple[str, ...]] = ("class_weight", "multi_label", *LONG_SETTINGS)

    def __init__(
        self,
        labels: Sequence[str],
        multi_label: bool = False,
        class_weights: Sequence[float] | None = None,
        long: LongTexts | None = None,
    ) -> None:
        self.labels, self.long = list(labels), long
        self.multi_label = multi_label
        self.class_weights = None if class_weights is None else [float(weight) for weight in class_weights]
        self.main_metric = "f1" if multi_label else "accuracy"
        self._number = {label: number for number, label in enumerate(self.labels)}
        if len(self._number) != len(self.labels):
            raise InputError("Two labels have the same name: give each class a name of its own.")
        if len(self.labels) < (1 if multi_label else 2):
            raise InputError("A classifier needs at least two classes.")
        if self.class_weights is not None and len(self.class_weights) != len(self.labels):
            raise InputError(f"{len(self.labels)} labels need as many class weights, not {len(self.class_weights)}.")

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        class_weight: str | None = None,
        multi_label: bool | None = None,
        train_file: str | None = None,
        dev_file: str | None = None,
        **long: Any,
    ) -> Classification:
        """Take the labels from the training rows, sorted (numbers by value).

        class_weight: None, or "balanced" for rows / (labels * rows of the label); multi_label: None decides
        by the data: True when a label holds `|`; long, stride, pool, max_windows: see `LongTexts.of`. Raises
        RowErrors for rows without a label and for dev labels that training does not know, InputError when there
        is only one class.
        """
        missing = [
            RowError(train_file or row.file, row.line, "label", "is missing") for row in train_rows if row.label is None
        ]
        if missing:
            raise RowErrors(missing)
        texts = [str(row.label) for row in train_rows]
        if multi_label is None:
            multi_label = any(LABEL_SEPARATOR in text for text in texts)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(split_labels(text)) if multi_label else [text])
        if len(counts) < 2:
            found = f"only the label '{next(iter(counts))}'" if counts else "no label"
            raise InputError(
                f"{train_file or 'The training data'} has {found}: a classifier needs rows of at least two classes."
            )
        labels = sort_labels(counts)
        weights = None
        if class_weight == "balanced":
            weights = balanced_weights([counts[label] for label in labels], len(texts), multi_label)
        elif class_weight is not None:
            raise InputError(unknown_name("class weight", class_weight, ["balanced"]))
        task = cls(labels, multi_label, weights, LongTexts.of(**long))
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
        """Labelled texts or pairs; see `text.tables.read_table`."""
        return read_table(path, columns=columns, multi_label=bool(multi_label), skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """The same, where a label that the model does not have makes a bad row."""
        return read_table(
            path, columns=columns, labels=self.labels, multi_label=self.multi_label, skip_bad_rows=skip_bad_rows
        )

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[str]:
        """The label of each row."""
        return [str(row.label) for row in rows]

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """accuracy, f1, macro_f1, matthews, as far as `metrics` has them."""
        if self.multi_label:
            return ("accuracy", "f1", "macro_f1")
        return ("accuracy", *(("f1",) if self.num_labels == 2 else ()), "macro_f1", "matthews")

    @property
    def num_labels(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def problem_type(self) -> str:
        """single_label_classification or multi_label_classification."""
        return f"{'multi' if self.multi_label else 'single'}_label_classification"

    def target(self, label: str | None) -> int | list[float]:
        """The number of a class, or 0.0 / 1.0 for each label. Raises ValueError for an unknown label."""
        if label is None:
            raise ValueError("is missing")
        parts = split_labels(label) if self.multi_label else [label]
        for part in parts:
            if part not in self._number:
                raise ValueError(unknown_name("label", part, self.labels[:20]))
        if not self.multi_label:
            return self._number[label]
        return [float(known in parts) for known in self.labels]

    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """int64 [rows], or float32 [rows, labels] for several labels."""
        return torch.tensor(values, dtype=torch.float32 if self.multi_label else torch.int64)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy, or binary cross-entropy averaged over labels.

        Class weights scale each row's loss and are not divided out again, so the mean over a batch does not
        depend on how the batch was cut for accumulation.
        """
        weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
        if self.multi_label:
            return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
        losses = F.cross_entropy(logits, targets, reduction="none")  # [rows]
        return losses.mean() if weights is None else (losses * weights[targets]).mean()

    def num_correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Rows whose class, or whose every label, is right: an int scalar."""
        if self.multi_label:
            return ((logits >= 0) == (targets >= THRESHOLD)).all(dim=-1).sum()
        return (logits.argmax(dim=-1) == targets).sum()

    def probabilities(self, logits: Tensor) -> Tensor:
        """float64 [rows, labels], at the temperature; rows sum to 1 unless several labels may apply."""
        wide = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        return wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Logits float32 [rows, labels] whose probabilities are the mean of the models' probabilities."""
        wide = [part.double() for part in logits]
        shares = [(part.sigmoid() if self.multi_label else part.softmax(dim=-1)).numpy() for part in wide]
        mean = torch.from_numpy(mean_probabilities(shares, multi_label=self.multi_label))
        return as_logits(mean, self.multi_label).float()

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"label", "score", "probabilities"} for each row, score being the label's probability.

        With several labels: {"labels", "probabilities"}, where `labels` lists those of at least one half.
        """
        answers: list[dict[str, Any]] = []
        best_of = logits.argmax(dim=-1).tolist()  # not of the probabilities: two of them may round to one number
        for number, row in zip(best_of, self.probabilities(logits).tolist(), strict=True):
            by_label = dict(zip(self.labels, row, strict=True))
            if self.multi_label:
                chosen = [label for label, value in by_label.items() if value >= THRESHOLD]
                answers.append({"labels": chosen, "probabilities": by_label})
            else:
                best = self.labels[number]
                answers.append({"label": best, "score": by_label[best], "probabilities": by_label})
        return answers

    def loudest(self, heard: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """The window that is surest of the class, or of each label; with the largest of the logits, the one it is of.

        The score is the probability of the label in that window.
        """
        shares = self.probabilities(heard)  # [windows, labels]
        by_logit = self.multi_label or (self.long is not None and self.long.pool == "max")
        voices = heard.double() if by_logit else heard.double().log_softmax(dim=-1)
        found = {}
        for label in answer["labels"] if self.multi_label else [answer["label"]]:
            number = self._number[label]
            window = int(voices[:, number].argmax())
            found[label if self.multi_label else ""] = (window, float(shares[window, number]))
        return found

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """accuracy, macro_f1, matthews, for two classes f1, and the calibration errors ece and ece_equal_mass.

        With several labels: accuracy (all labels of a row right), macro_f1, and over all decisions f1 and the
        calibration errors.
        """
        gold = targets.numpy()
        decisions = self._decisions(logits, targets, ())
        errors = calibration_errors(decisions.gold, honest_probabilities(decisions, self._unseen()))
        if self.multi_label:
            predicted, gold = self.probabilities(logits).numpy() >= THRESHOLD, gold >= THRESHOLD
            return {
                "accuracy": scores.accuracy(gold, predicted),
                "f1": scores.micro_f1(gold, predicted),
                "macro_f1": scores.macro_f1(gold, predicted),
                **errors,
            }
        predicted = logits.argmax(dim=-1).numpy()
        result = {"accuracy": scores.accuracy(gold, predicted), "macro_f1": scores.macro_f1(gold, predicted)}
        if self.num_labels == 2:
            result["f1"] = scores.f1(gold, predicted)
        result["matthews"] = scores.matthews(gold, predicted)
        return result | errors

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Metrics and loss; rows that the temperature was fitted on are judged in halves, each at that of the other."""
        found = super().score(logits, examples)
        decisions = self.decisions(logits, examples)
        errors = calibration_errors(decisions.gold, honest_probabilities(decisions, self.temperature))
        return Evaluation(found.metrics | errors, logits, found.loss)

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions:
        """The class of each row; of several labels, for each row and label whether it applies."""
        assert examples.targets is not None, "labelled rows are needed"
        return self._decisions(logits, examples.targets, row_keys(examples.rows))

    def _decisions(self, logits: Tensor, targets: Tensor, keys: Sequence[str]) -> Decisions:
        wide = logits.double().numpy()
        if not self.multi_label:
            return Decisions(wide, targets.numpy(), keys)
        flat = wide.reshape(-1)  # [rows * labels]; the sigmoid of x is the softmax of 0 and x
        gold = (targets.numpy() >= THRESHOLD).astype(np.int64).reshape(-1)
        return Decisions(np.stack([np.zeros_like(flat), flat], axis=1), gold, np.repeat(keys, self.num_labels).tolist())

    def _unseen(self) -> Temperature | None:
        """The temperature for rows that are known to have had no part in it."""
        return None if self.temperature is None else Temperature(self.temperature.value)

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "multi_label", "class_weights"}, "temperature" where it was fitted, "long" for windows."""
        fitted = {} if self.temperature is None else {"temperature": self.temperature.to_json()}
        facts = {
            "task": self.name,
            "labels": self.labels,
            "multi_label": self.multi_label,
            "class_weights": self.class_weights,
            **fitted,
        }
        return facts if self.long is None else {**facts, "long": self.long.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Classification:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""
        labels, weights = facts.get("labels"), facts.get("class_weights")
        fits = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        if weights is not None:
            fits = fits and isinstance(weights, list) and all(isinstance(weight, (int, float)) for weight in weights)
        if not fits:
            raise ModelFolderError("The model's maskwright.json has no list of label names under 'labels'.")
        long = LongTexts.from_json(facts)
        try:
            task = cls(labels, bool(facts.get("multi_label", False)), weights, long)  # type: ignore[arg-type]
        except InputError as error:
            raise ModelFolderError(f"The model's maskwright.json does not describe a classifier: {error}") from None
        if facts.get("temperature") is not None:
            task.temperature = Temperature.from_json(facts["temperature"])
        return task


def split_labels(text: str) -> list[str]:
    """The labels of a multi-label cell: `a|b` is a and b, an empty one is none."""
    return [part.strip() for part in text.split(LABEL_SEPARATOR) if part.strip()]


def sort_labels(labels: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Label names in order: by value when all are numbers, else by name."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(math.isfinite(value) for value in values.values()):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def balanced_weights(counts: Sequence[int], num_rows: int, multi_label: bool = False) -> list[float]:
    """Weights that let every class count the same: rows / (labels * count), as scikit-learn's "balanced".

    With several labels each is its own decision: rows without the label / rows with it.
    """
    if multi_label:
        return [(num_rows - count) / count if count < num_rows else 1.0 for count in counts]
    return [num_rows / (len(counts) * count) for count in counts]
