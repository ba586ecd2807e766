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
from ..objectives.focal import focal_binary, focal_cross_entropy
from ..text.cells import LABEL_SEPARATOR
from ..text.sentiment_trees import is_treebank, read_treebank
from ..text.tables import Row, Table, read_table
from .calibration import Temperature
from .class_answers import THRESHOLD, ClassAnswers
from .class_labels import balanced_weights, sort_labels, split_labels
from .examples import Examples
from .imbalance import RESAMPLING, Imbalance, row_chances
from .long_texts import LONG_SETTINGS, LongTexts
from .rare import RareClass


class Classification(ClassAnswers):
    """Classes by name.

    labels: in the order of the head's outputs; with two, the second is the positive class of `f1`;
    multi_label: a row may have any number of labels; class_weights: one factor for each label on the loss of
    its rows (single label) or of its positive decisions (multi-label), None for 1; long: how long texts are read,
    None where they are cut; focal: gamma of the focal loss, None for cross-entropy; resample: None, or how rows of rare
    classes are drawn more often in training ("balanced", "sqrt"); rare: the class that pr_auc and f1 are about, with
    its threshold, None for the second of two.

    What the logits say stands in `class_answers`.
    """

    name: ClassVar[str] = "classification"
    head = "classification"
    settings: ClassVar[tuple[str, ...]] = (
        "class_weight", "multi_label", "focal", "resample", "threshold_for", "threshold_precision", *LONG_SETTINGS,
    )  # fmt: skip

    def __init__(
        self,
        labels: Sequence[str],
        multi_label: bool = False,
        class_weights: Sequence[float] | None = None,
        long: LongTexts | None = None,
        *,
        focal: float | None = None,
        resample: str | None = None,
        rare: RareClass | None = None,
    ) -> None:
        self.labels, self.long = list(labels), long
        self.multi_label = multi_label
        self.class_weights = None if class_weights is None else [float(weight) for weight in class_weights]
        self.focal = None if focal is None else float(focal)
        self.resample = resample
        self.rare = rare
        self.main_metric = "pr_auc" if rare else "f1" if multi_label else "accuracy"
        self._number = {label: number for number, label in enumerate(self.labels)}
        if len(self._number) != len(self.labels):
            raise InputError("Two labels have the same name: give each class a name of its own.")
        if len(self.labels) < (1 if multi_label else 2):
            raise InputError("A classifier needs at least two classes.")
        if self.class_weights is not None and len(self.class_weights) != len(self.labels):
            raise InputError(f"{len(self.labels)} labels need as many class weights, not {len(self.class_weights)}.")
        if self.focal is not None and not (math.isfinite(self.focal) and self.focal >= 0):
            raise InputError(f"The gamma of the focal loss is {self.focal}; it must be 0 or more, as in --focal 2.")
        if resample is not None and resample not in RESAMPLING:
            raise InputError(unknown_name("resampling", resample, RESAMPLING))
        if rare is not None and rare.label not in self._number:
            raise InputError(unknown_name("class", rare.label, self.labels[:20]))

    @classmethod
    def from_rows(
        cls,
        train_rows: Sequence[Row],
        dev_rows: Sequence[Row] = (),
        *,
        class_weight: str | None = None,
        multi_label: bool | None = None,
        focal: float | None = None,
        resample: str | None = None,
        threshold_for: str | None = None,
        threshold_precision: float | None = None,
        train_file: str | None = None,
        dev_file: str | None = None,
        **long: Any,
    ) -> Classification:
        """Take the labels from the training rows, sorted (numbers by value).

        class_weight: None, or "balanced" for rows / (labels * rows of the label); multi_label: None decides
        by the data: True when a label holds `|`; threshold_for: a class whose threshold is chosen on dev, for the best
        F1 or for threshold_precision; long, stride, pool, max_windows: see `LongTexts.of`. Where a class is rare,
        macro_f1 leads instead of accuracy. Raises RowErrors for rows without a label and for dev labels that training
        does not know, InputError when there is only one class.
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
        rare = None if threshold_for is None else RareClass(threshold_for, True, threshold_precision)
        task = cls(labels, multi_label, weights, LongTexts.of(**long), focal=focal, resample=resample, rare=rare)
        if task.main_metric == "accuracy" and Imbalance(labels, [counts[label] for label in labels], len(texts)).rare:
            task.main_metric = "macro_f1"
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
        """Labelled texts or pairs; see `text.tables.read_table`, and `text.sentiment_trees` for bracketed trees."""
        if is_treebank(path):
            return read_treebank(path, columns=columns, skip_bad_rows=skip_bad_rows)
        return read_table(path, columns=columns, multi_label=bool(multi_label), skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """The same, where a label that the model does not have makes a bad row."""
        if is_treebank(path):
            return read_treebank(path, columns=columns, labels=self.labels, skip_bad_rows=skip_bad_rows)
        return read_table(
            path, columns=columns, labels=self.labels, multi_label=self.multi_label, skip_bad_rows=skip_bad_rows
        )

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[str]:
        """The label of each row."""
        return [str(row.label) for row in rows]

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

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Also how uneven the classes of the training rows are, where one is rare."""
        told = self.imbalance(examples).told() if name == "train" and examples.targets is not None else ""
        return [*super().remarks(examples, name, max_length), *([told] if told else [])]

    def imbalance(self, examples: Examples) -> Imbalance:
        """Rows of each class among labelled examples."""
        return Imbalance(self.labels, self._memberships(examples).sum(axis=0).tolist(), len(examples))

    def row_chances(self, examples: Examples) -> np.ndarray | None:
        """How probable each row is to be drawn in training, under `resample`: float64 [rows]; None for each once."""
        return None if self.resample is None else row_chances(self._memberships(examples), self.resample)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy, or binary cross-entropy averaged over labels; with `focal` the focal loss in their place.

        Class weights scale each row's loss and are not divided out again, so the mean over a batch does not
        depend on how the batch was cut for accumulation.
        """
        weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
        if self.multi_label:
            if self.focal is not None:
                return focal_binary(logits, targets, self.focal, weights).mean()
            return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
        if self.focal is not None:
            losses = focal_cross_entropy(logits, targets, self.focal)  # [rows]
        else:
            losses = F.cross_entropy(logits, targets, reduction="none")  # [rows]
        return losses.mean() if weights is None else (losses * weights[targets]).mean()

    def num_correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Rows whose class, or whose every label, is right: an int scalar."""
        if self.multi_label:
            return ((logits >= 0) == (targets >= THRESHOLD)).all(dim=-1).sum()
        return (logits.argmax(dim=-1) == targets).sum()

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "multi_label", "class_weights", "focal", "resample", "rare"}, "temperature" where it was
        fitted, "long" for windows.
        """
        fitted = {} if self.temperature is None else {"temperature": self.temperature.to_json()}
        facts = {
            "task": self.name,
            "labels": self.labels,
            "multi_label": self.multi_label,
            "class_weights": self.class_weights,
            "focal": self.focal,
            "resample": self.resample,
            "rare": None if self.rare is None else self.rare.to_json(),
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
        rare, focal, resample = facts.get("rare"), facts.get("focal"), facts.get("resample")
        if not isinstance(focal, int | float | None) or not isinstance(resample, str | None):
            raise ModelFolderError("The model's maskwright.json has 'focal' or 'resample' of another type than ours.")
        long = LongTexts.from_json(facts)
        try:
            task = cls(
                labels,  # type: ignore[arg-type]
                bool(facts.get("multi_label", False)),
                weights,
                long,
                focal=focal,
                resample=resample,
                rare=None if rare is None else RareClass.from_json(rare, labels),  # type: ignore[arg-type]
            )
        except InputError as error:
            raise ModelFolderError(f"The model's maskwright.json does not describe a classifier: {error}") from None
        if facts.get("temperature") is not None:
            task.temperature = Temperature.from_json(facts["temperature"])
        return task
