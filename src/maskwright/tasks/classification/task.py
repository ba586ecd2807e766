"""Text classification of texts or pairs: one of several classes (softmax), or any number of them (sigmoid).

Devlin et al. 2019, section 4.1: log(softmax(C W^T)) on the pooled first token.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError, ModelFolderError, RowError, RowErrors
from ...core.registry import unknown_name
from ...objectives.focal import focal_binary, focal_cross_entropy
from ...text.formats.cells import LABEL_SEPARATOR
from ...text.readers.reader import find_classes_reader
from ...text.readers.tables import Row, Table, read_table
from ..base import Task
from ..data import Baseline, TaskData
from ..evaluation.calibration import Temperature
from ..evaluation.rare import RareClass
from ..evaluation.unscored import Unscored
from ..rows.examples import Examples
from ..rows.imbalance import RESAMPLING, Imbalance, row_probabilities
from ..rows.long_texts import LongTexts
from ..rows.relevant import relevant_class
from ..rows.sequence import labeled
from .answers import THRESHOLD, ClassAnswers
from .labels import balanced_weights, sort_labels, split_labels


class Classification(ClassAnswers):
    """Single-label or multi-label text classification. Decoding and metrics: `ClassAnswers`.

    Args:
        labels: in the order of the outputs; of two, the second is the positive class of `f1`.
        multi_label: whether a row may have any number of labels.
        class_weights: factor per label on the loss of its rows (single-label) or of its positive decisions
            (multi-label); None for 1.
        long: window settings for long texts; None to truncate them.
        focal: gamma of the focal loss; None for cross-entropy.
        resample: "balanced" or "sqrt" to oversample rare classes in training, None to draw each row once.
        rare: positive class of pr_auc and f1, with its threshold; None for the second of two classes.
        relevant: class of pairs whose second text is relevant to the first, for ranking; None to find it by its name
            (`rows.relevant.relevant_class`).
    """

    name: ClassVar[str] = "classification"
    report: ClassVar[str] = "maskwright.tasks.classification.report:ClassificationReport"
    rating: ClassVar[str] = "maskwright.tasks.classification.rating:rate"
    head = "classification"
    can_abstain = True

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
        relevant: str | None = None,
    ) -> None:
        self.labels, self.long = list(labels), long
        self.multi_label = multi_label
        self.class_weights = None if class_weights is None else [float(weight) for weight in class_weights]
        self.focal = None if focal is None else float(focal)
        self.resample = resample
        self.rare, self.relevant = rare, relevant
        self.main_metric = "pr_auc" if rare else "f1" if multi_label else "accuracy"
        self._number = {label: number for number, label in enumerate(self.labels)}
        if len(self._number) != len(self.labels):
            raise InputError("Two labels have the same name: label names must be unique.")
        if len(self.labels) < (1 if multi_label else 2):
            raise InputError("A classifier needs at least two classes.")
        if self.class_weights is not None and len(self.class_weights) != len(self.labels):
            raise InputError(
                f"{len(self.labels)} labels need {len(self.labels)} class weights, not {len(self.class_weights)}."
            )
        if self.focal is not None and not (math.isfinite(self.focal) and self.focal >= 0):
            raise InputError(
                f"The gamma of the focal loss is {self.focal}; it must be 0 or more, for example --focal 2."
            )
        if resample is not None and resample not in RESAMPLING:
            raise InputError(unknown_name("resampling", resample, RESAMPLING))
        if rare is not None and rare.label not in self._number:
            raise InputError(unknown_name("class", rare.label, self.labels[:20]))
        if relevant is not None and relevant not in self.labels:
            raise InputError(unknown_name("relevant class", str(relevant), self.labels[:20]))

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
        """Collects the labels of the training rows, sorted (numbers by value).

        If a class is rare, the main metric is macro_f1 instead of accuracy.

        Args:
            class_weight: None, or "balanced" for rows / (labels * rows of the label).
            multi_label: default: True if a label contains `|` or is empty.
            threshold_for: class whose threshold is tuned on dev examples, for the best F1 or threshold_precision.
            long: see `LongTexts.of`, as for stride, pool, max_windows.

        Raises:
            RowErrors: rows without a label, or dev labels that the training rows do not have.
            InputError: there is only one class.
        """
        missing = [
            RowError(train_file or row.file, row.line, "label", "is missing") for row in train_rows if row.label is None
        ]
        if missing:
            raise RowErrors(missing)
        texts = [str(row.label) for row in train_rows]
        if multi_label is None:
            multi_label = any(LABEL_SEPARATOR in text or not text for text in texts)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(split_labels(text)) if multi_label else [text])
        if len(counts) < 2:
            found = f"only the label '{next(iter(counts))[:60]}'" if counts else "no label"
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
        ranks = relevant_class(labels) if any(row.text_pair is not None for row in train_rows) else None
        relevant = None if ranks is None else labels[ranks]
        windows = LongTexts.of(**long)
        task = cls(labels, multi_label, weights, windows, focal=focal, resample=resample, rare=rare, relevant=relevant)
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
        like: Table | None = None,
        skip_bad_rows: bool = False,
    ) -> Table:
        """Reads labeled texts or pairs: a table (`text.readers.tables`), or a layout with `Reader.read_classes`.

        like: training rows, whose form of labels dev rows have too.
        """
        found = cls._read_classes(path, columns, None, skip_bad_rows)
        if found is not None:
            return found
        if like is not None:
            multi_label = like.form.multi_label
        return read_table(path, columns=columns, multi_label=multi_label, like=like, skip_bad_rows=skip_bad_rows)

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> Table:
        """As `read`; a label that the model does not have is an error."""
        found = self._read_classes(path, columns, self.labels, skip_bad_rows)
        if found is not None:
            return found
        return read_table(
            path, columns=columns, labels=self.labels, multi_label=self.multi_label, skip_bad_rows=skip_bad_rows
        )

    @staticmethod
    def _read_classes(
        path: Path | str, columns: Mapping[str, str] | None, labels: Sequence[str] | None, skip_bad_rows: bool
    ) -> Table | None:
        """Returns the rows of a file with its own layout of labeled texts, None for a table."""
        reader = find_classes_reader(Path(path), columns)
        if reader is None or reader.read_classes is None:
            return None
        table: Table = reader.read_classes(Path(path), columns, labels, skip_bad_rows)
        return table

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
        """Returns a reason if no row has a class of this model."""
        given = {row.label for row in rows if row.label}
        found = {part for label in given for part in (split_labels(label) if self.multi_label else [label])}
        if not found or not found.isdisjoint(self._number):
            return None
        return Unscored.of_labels(found)

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[Collection[str]]:
        """The label, or the labels `a|b`, of each row."""
        return [split_labels(str(row.label)) for row in rows]

    def target(self, label: str | None) -> int | list[float]:
        """The class number, or 0.0 / 1.0 for each label. Raises ValueError for an unknown label."""
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
        """int64 [rows], or float32 [rows, labels] if multi-label."""
        return torch.tensor(values, dtype=torch.float32 if self.multi_label else torch.int64)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Adds the class imbalance of the training rows, if a class is rare."""
        summary = self.imbalance(examples).summary() if name == "train" and examples.targets is not None else ""
        return [*super().notes(examples, name, max_length), *([summary] if summary else [])]

    def imbalance(self, examples: Examples) -> Imbalance:
        """Class counts of labeled examples."""
        return Imbalance(self.labels, self._memberships(examples).sum(axis=0).tolist(), len(examples))

    def row_probabilities(self, examples: Examples) -> np.ndarray | None:
        """Sampling probabilities under `resample`, float64 [rows]; None to draw each row once."""
        return None if self.resample is None else row_probabilities(self._memberships(examples), self.resample)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy, or binary cross-entropy averaged over labels; with `focal` the focal loss instead.

        Class weights scale the loss of each row without normalization, so the mean over a batch does not depend on how
        it is split for gradient accumulation.
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
        """Number of rows whose class (or every label) is correct: an int scalar."""
        if self.multi_label:
            return ((logits >= 0) == (targets >= THRESHOLD)).all(dim=-1).sum()
        return (logits.argmax(dim=-1) == targets).sum()

    def baseline(self, data: TaskData) -> Baseline:
        """The score of always predicting the most common label; of pr_auc, that of a random order."""
        targets = labeled(data.dev)
        if self.main_metric == "pr_auc" and self.rare is not None:
            return Baseline(self.imbalance(data.dev).shares[self._number[self.rare.label]], "random order")
        if self.main_metric == "pr_auc":
            return Baseline(float((targets == 1).float().mean()), "random order")
        learned = labeled(data.train)
        common = int((learned.sum(dim=0) if self.multi_label else torch.bincount(learned)).argmax())
        constant = torch.full((len(targets), self.num_labels), -100.0)  # so certain that no threshold decides otherwise
        constant[:, common] = 100.0
        return Baseline(
            self.metrics(constant, targets)[self.main_metric], f"the majority class '{self.labels[common]}'"
        )

    def on_equal_terms(self, other: Classification) -> tuple[Task, Task]:
        """Both with the rare class of either. Raises InputError for a class that the other does not have."""
        rare = self.rare or other.rare
        return (self, other) if rare is None else (self.for_class(rare.label), other.for_class(rare.label))

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "multi_label", "class_weights", "focal", "resample", "rare"}, "temperature" if fitted,
        "relevant" for pairs with such a class, "long" for windows.
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
            **({} if self.relevant is None else {"relevant": self.relevant}),
        }
        return facts if self.long is None else {**facts, "long": self.long.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Classification:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
        labels, weights = facts.get("labels"), facts.get("class_weights")
        fits = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        if weights is not None:
            fits = fits and isinstance(weights, list) and all(isinstance(weight, (int, float)) for weight in weights)
        if not fits:
            raise ModelFolderError("The model's maskwright.json has no list of label names under 'labels'.")
        rare, focal, resample = facts.get("rare"), facts.get("focal"), facts.get("resample")
        if not isinstance(focal, int | float | None) or not isinstance(resample, str | None):
            raise ModelFolderError("The model's maskwright.json has a 'focal' or 'resample' of an invalid type.")
        long = LongTexts.from_json(facts)
        try:
            task = cls(
                labels,  # type: ignore[arg-type]  # fits
                bool(facts.get("multi_label", False)),
                weights,
                long,
                focal=focal,
                resample=resample,
                rare=None if rare is None else RareClass.from_json(rare, labels),  # type: ignore[arg-type]  # fits
                relevant=facts.get("relevant"),
            )
        except InputError as error:
            raise ModelFolderError(f"The model's maskwright.json does not describe a classifier: {error}") from None
        if facts.get("temperature") is not None:
            task.temperature = Temperature.from_json(facts["temperature"])
        return task
