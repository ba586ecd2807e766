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
from ..text.tables import Row, Table, read_table
from . import metrics as scores
from .base import Evaluation
from .class_labels import balanced_weights, sort_labels, split_labels
from .examples import Examples
from .imbalance import RESAMPLING, Imbalance, row_chances
from .rare import RareClass, rare_metrics
from .sequence import SequenceTask, labelled
from .thresholds import row_key

THRESHOLD = 0.5  # a label of several applies from this probability


class Classification(SequenceTask):
    """Classes by name.

    labels: in the order of the head's outputs; with two, the second is the positive class of `f1`;
    multi_label: a row may have any number of labels; class_weights: one factor for each label on the loss of
    its rows (single label) or of its positive decisions (multi-label), None for 1; focal: gamma of the focal loss,
    None for cross-entropy; resample: None, or how rows of rare classes are drawn more often in training ("balanced",
    "sqrt"); rare: the class that pr_auc and f1 are about, with its threshold, None for the second of two.
    """

    name: ClassVar[str] = "classification"
    head = "classification"
    settings: ClassVar[tuple[str, ...]] = (
        "class_weight", "multi_label", "focal", "resample", "threshold_for", "threshold_precision",
    )  # fmt: skip

    def __init__(
        self,
        labels: Sequence[str],
        multi_label: bool = False,
        class_weights: Sequence[float] | None = None,
        *,
        focal: float | None = None,
        resample: str | None = None,
        rare: RareClass | None = None,
    ) -> None:
        self.labels = list(labels)
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
    ) -> Classification:
        """Take the labels from the training rows, sorted (numbers by value).

        class_weight: None, or "balanced" for rows / (labels * rows of the label); multi_label: None decides
        by the data: True when a label holds `|`; threshold_for: a class whose threshold is chosen on dev, for the best
        F1 or for threshold_precision. Where a class is rare, macro_f1 leads instead of accuracy. Raises RowErrors for
        rows without a label and for dev labels that training does not know, InputError when there is only one class.
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
        task = cls(labels, multi_label, weights, focal=focal, resample=resample, rare=rare)
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

    def _memberships(self, examples: Examples) -> np.ndarray:
        """Which classes each row is of: bool [rows, labels]."""
        targets = labelled(examples).numpy()
        if self.multi_label:
            return np.asarray(targets >= THRESHOLD)
        return np.asarray(targets[:, None] == np.arange(self.num_labels))

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

    def probabilities(self, logits: Tensor) -> Tensor:
        """float64 [rows, labels]; rows sum to 1 unless several labels may apply."""
        wide = logits.double()
        return wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)

    def decide(self, probabilities: np.ndarray, cuts: np.ndarray | float | None = None) -> np.ndarray:
        """The class of each row: int64 [rows], or bool [rows, labels] with several labels.

        probabilities: float [rows, labels]; cuts: of the rare class, above which it is given, one for all rows or
        float [rows]; None for that of the model, if it has one.
        """
        if cuts is None:
            cuts = None if self.rare is None else self.rare.cut
        if self.multi_label:
            several: np.ndarray = probabilities >= THRESHOLD
            if cuts is not None:
                several[:, self._rare_number] = probabilities[:, self._rare_number] > cuts
            return several
        if cuts is None:
            best: np.ndarray = probabilities.argmax(axis=1)
            return best
        others = probabilities.copy()
        others[:, self._rare_number] = -1.0
        return np.where(probabilities[:, self._rare_number] > cuts, self._rare_number, others.argmax(axis=1))

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"label", "score", "probabilities"} for each row, score being the label's probability.

        With several labels: {"labels", "probabilities"}, where `labels` lists those of at least one half. The rare
        class is given where its probability is above its threshold, if it has one.
        """
        probabilities = self.probabilities(logits).numpy()
        answers: list[dict[str, Any]] = []
        for row, decided in zip(probabilities.tolist(), self.decide(probabilities), strict=True):
            by_label = dict(zip(self.labels, row, strict=True))
            if self.multi_label:
                chosen = [label for label, applies in zip(self.labels, decided, strict=True) if applies]
                answers.append({"labels": chosen, "probabilities": by_label})
            else:
                best = self.labels[decided]
                answers.append({"label": best, "score": by_label[best], "probabilities": by_label})
        return answers

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """`metrics` and the mean loss over rows.

        Rows that chose the threshold of the rare class, or come before it is chosen, are scored in two halves, each
        with the threshold of the other.
        """
        targets = labelled(examples)
        metrics = self.metrics(logits, targets, self.fair_cuts(logits, examples))
        return Evaluation(metrics, logits, float(self.loss_of(logits, targets)))

    def fair_cuts(self, logits: Tensor, examples: Examples) -> np.ndarray | None:
        """The threshold of the rare class by which each row may be scored: float64 [rows]; None without one."""
        if self.rare is None or not self.rare.tunes or examples.targets is None or not len(examples):
            return None
        return self.rare.cuts(*self._rare_rows(logits, examples))

    def settle(self, logits: Tensor, examples: Examples) -> None:
        """Choose the threshold of the rare class on the dev rows, where that is wanted."""
        if self.rare is not None and self.rare.tunes:
            self.rare = self.rare.settled(*self._rare_rows(logits, examples))

    def _rare_rows(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Probability of the rare class and whether it is the right one, both [rows], and the rows' keys."""
        number = self._rare_number
        keys = [row_key(row.text, row.text_pair) for row in examples.rows]
        return self.probabilities(logits).numpy()[:, number], self._memberships(examples)[:, number], keys

    def asked_for(self, label: str) -> Classification:
        """The same task with scores about the class `label`. A threshold of another class does not take part.

        Raises InputError for a class that is not there.
        """
        rare = self.rare if self.rare is not None and self.rare.label == label else RareClass(label)
        return Classification(
            self.labels, self.multi_label, self.class_weights, focal=self.focal, resample=self.resample, rare=rare
        )

    @property
    def _rare_number(self) -> int:
        """The output that pr_auc is about: the rare class, else the second of two."""
        return 1 if self.rare is None else self._number[self.rare.label]

    def metrics(self, logits: Tensor, targets: Tensor, cuts: np.ndarray | None = None) -> dict[str, float]:
        """accuracy, macro_f1, matthews, ece; for two classes, or where one is named, pr_auc, f1 and
        recall_at_precision_90 of the second or of the named one against the rest.

        With several labels: accuracy (all labels of a row right), f1 (over all decisions) and macro_f1; pr_auc and
        recall_at_precision_90 of a named one. cuts: as `decide` takes them.
        """
        probabilities = self.probabilities(logits).numpy()
        gold, predicted = targets.numpy(), self.decide(probabilities, cuts)
        number = self._rare_number
        if self.multi_label:
            gold = gold >= THRESHOLD
            named = {} if self.rare is None else rare_metrics(gold[:, number], probabilities[:, number])
            return {
                "accuracy": scores.accuracy(gold, predicted),
                "f1": scores.micro_f1(gold, predicted),
                "macro_f1": scores.macro_f1(gold, predicted),
                **named,
            }
        result = {"accuracy": scores.accuracy(gold, predicted), "macro_f1": scores.macro_f1(gold, predicted)}
        if self.num_labels == 2 or self.rare is not None:
            result |= rare_metrics(gold == number, probabilities[:, number], predicted == number)
        result["matthews"] = scores.matthews(gold, predicted)
        result["ece"] = scores.ece(gold, probabilities)
        return result

    def to_json(self) -> dict[str, Any]:
        """{"task", "labels", "multi_label", "class_weights", "focal", "resample", "rare"}."""
        return {
            "task": self.name,
            "labels": self.labels,
            "multi_label": self.multi_label,
            "class_weights": self.class_weights,
            "focal": self.focal,
            "resample": self.resample,
            "rare": None if self.rare is None else self.rare.to_json(),
        }

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
        try:
            return cls(
                labels,  # type: ignore[arg-type]
                bool(facts.get("multi_label", False)),
                weights,
                focal=focal,
                resample=resample,
                rare=None if rare is None else RareClass.from_json(rare, labels),  # type: ignore[arg-type]
            )
        except InputError as error:
            raise ModelFolderError(f"The model's maskwright.json does not describe a classifier: {error}") from None
