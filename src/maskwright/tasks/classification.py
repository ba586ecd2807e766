"""Text classification of texts or pairs: one of several classes (softmax), or any number of them (sigmoid).

Devlin et al. 2019, section 4.1: log(softmax(C W^T)) on the pooled first token.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..core.registry import unknown_name
from ..core.util import plural
from ..objectives.outcome import focal_binary, focal_cross_entropy
from ..text.formats.cells import LABEL_SEPARATOR
from ..text.readers.tables import Reader, Row, Table, find_classes_reader, read_table
from .base import Baseline, ColumnNames, Evaluation, Task, TaskData, Unscored
from .evaluation import metrics as scores
from .evaluation.calibration import Decisions, Temperature, calibration_errors, out_of_fold_probabilities, row_keys
from .evaluation.compare import ScoredPredictions, f1, mean, pr_auc
from .evaluation.metrics import mean_probabilities
from .evaluation.rare import RareClass, joined_rare, rare_metrics
from .examples import Examples, as_logits
from .sequence import SequenceTask, labeled, relevant_class
from .windows import LongTexts

# -- Class imbalance of training rows, and resampling of minority classes -------------------------------------------

RARE_SHARE = 0.1
RARE_PART = 0.5  # of an even share: with 77 classes of one size none is rare
BETA = 0.999
SHOWN = 12
RESAMPLING = ("balanced", "sqrt")


@dataclass(frozen=True)
class Imbalance:
    """Number of rows per class. counts: rows with each label; num_rows: all rows, labeled or not."""

    labels: Sequence[str]
    counts: Sequence[int]
    num_rows: int

    @property
    def shares(self) -> list[float]:
        return [count / self.num_rows for count in self.counts]

    @property
    def effective_numbers(self) -> list[float]:
        """Effective number of samples, (1 - beta^n) / (1 - beta) with beta 0.999 (Cui et al. 2019, equation 2)."""
        return [(1 - BETA**count) / (1 - BETA) for count in self.counts]

    @property
    def rare(self) -> list[str]:
        """Labels with less than a tenth of the rows and less than half of an even share."""
        limit = min(RARE_SHARE, RARE_PART / max(len(self.labels), 1))
        return [label for label, share in zip(self.labels, self.shares, strict=True) if share < limit]

    @property
    def constant_accuracy(self) -> float:
        return max(self.shares, default=0.0)

    def summary(self) -> str:
        if not self.rare:
            return ""
        order = sorted(range(len(self.labels)), key=lambda place: self.counts[place])
        numbers = self.effective_numbers
        lines = [
            f"  {self.labels[place]}: {plural(self.counts[place], 'row')}, {100 * self.shares[place]:.1f} %, "
            f"effective number {numbers[place]:,.0f}"
            for place in order[:SHOWN]
        ]
        if len(order) > SHOWN:
            lines.append(f"  and {len(order) - SHOWN} more")
        majority = self.labels[order[-1]]
        return "\n".join(
            [
                f"Rare classes in the training rows: {', '.join(self.rare[:SHOWN])}.",
                *lines,
                f"Always predicting '{majority}' has an accuracy of {self.constant_accuracy:.3f}: use macro_f1, and "
                "pr_auc of the class of interest (--threshold-for CLASS). --class-weight balanced, --set focal=2 and "
                "--set resample=sqrt give rare rows more weight.",
            ]
        )


def row_probabilities(memberships: np.ndarray, kind: str) -> np.ndarray:
    """Sampling probability of each row: float64 [rows], summing to 1.

    memberships: bool [rows, classes], the classes of each row (any number with multiple labels); kind: "balanced"
    samples all classes equally often, "sqrt" in proportion to the square root of their size. A row with several classes
    counts for its rarest one; rows without a class form a separate class.
    """
    has_none = ~memberships.any(axis=1, keepdims=True)
    every = np.concatenate([memberships, has_none], axis=1)  # [rows, classes + 1]
    counts = every.sum(axis=0).astype(np.float64)
    size = np.where(every, counts, np.inf).min(axis=1)  # [rows], size of the rarest class of each row
    chances = 1 / size if kind == "balanced" else 1 / np.sqrt(size)
    whole: np.ndarray = chances / chances.sum()
    return whole


def resample_rows(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws as many row numbers as there are rows, shuffled: int64 [rows].

    chances: float64 [rows], summing to 1. Systematic sampling: each row, and each group of rows with the same
    probability, is drawn as often as expected, to within one, so the class proportions hold in every epoch.
    """
    count = len(chances)
    order = rng.permutation(count)
    order = order[np.argsort(chances[order], kind="stable")]
    marks = (np.arange(count) + rng.random()) / count
    ends = np.cumsum(chances[order])
    places = np.minimum(np.searchsorted(ends / ends[-1], marks, side="right"), count - 1)
    drawn: np.ndarray = order[places][rng.permutation(count)]
    return drawn


# -- Class labels: parsing of multi-label cells, sort order, class weights -------------------------------------------


def split_labels(text: str) -> list[str]:
    """Splits a multi-label cell: `a|b` has the labels a and b, an empty cell has none."""
    return [part.strip() for part in text.split(LABEL_SEPARATOR) if part.strip()]


def sort_labels(labels: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Sorts labels: by value if all are numbers, otherwise by name."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(math.isfinite(value) for value in values.values()):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def balanced_weights(counts: Sequence[int], num_rows: int, multi_label: bool = False) -> list[float]:
    """Class weights by inverse frequency: rows / (labels * count), as scikit-learn's "balanced".

    Multi-label: rows without the label / rows with it.
    """
    if multi_label:
        return [(num_rows - count) / count if count < num_rows else 1.0 for count in counts]
    return [num_rows / (len(counts) * count) for count in counts]


# -- The task --------------------------------------------------------------------------------------------------------
#
# Two parameters can be fitted after training: a temperature that divides the logits, and a decision threshold for a
# rare class. The threshold applies to uncalibrated probabilities, so the temperature never changes a prediction.

THRESHOLD = 0.5  # multi-label: a label applies from this probability


@dataclass(eq=False)
class Classification(SequenceTask):
    """Single-label or multi-label text classification.

    labels: in the order of the outputs; of two, the second is the positive class of `f1`; class_weights: factor per
    label on the loss of its rows, or (multi-label) of its positive decisions, None for 1; focal: gamma of the focal
    loss, None for cross-entropy; resample: "balanced" or "sqrt" to oversample rare classes in training; rare: positive
    class of pr_auc and f1, with its threshold, None for the second of two classes; relevant: class of pairs whose
    second text is relevant to the first, None to find it by its name (`sequence.relevant_class`).
    """

    name: ClassVar[str] = "classification"
    report: ClassVar[str] = "maskwright.tasks.report:ClassificationReport"
    head = "classification"
    can_abstain = True

    labels: list[str]
    multi_label: bool = False
    class_weights: list[float] | None = None
    long: LongTexts | None = None
    focal: float | None = field(default=None, kw_only=True)
    resample: str | None = field(default=None, kw_only=True)
    rare: RareClass | None = field(default=None, kw_only=True)
    relevant: str | None = field(default=None, kw_only=True)
    temperature: Temperature | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.labels = list(self.labels)
        self.main_metric = "pr_auc" if self.rare else "f1" if self.multi_label else "accuracy"
        self._number = {label: number for number, label in enumerate(self.labels)}  # label -> output
        if len(self._number) != len(self.labels):
            raise InputError("Two labels have the same name: label names must be unique.")
        if len(self.labels) < (1 if self.multi_label else 2):
            raise InputError("A classifier needs at least two classes.")
        if self.class_weights is not None and len(self.class_weights) != len(self.labels):
            raise InputError(
                f"{len(self.labels)} labels need {len(self.labels)} class weights, not {len(self.class_weights)}."
            )
        if self.focal is not None and not (math.isfinite(self.focal) and self.focal >= 0):
            raise InputError(f"The gamma of the focal loss is {self.focal}; it must be 0 or more, for example 2.")
        if self.resample is not None and self.resample not in RESAMPLING:
            raise InputError(unknown_name("resampling", self.resample, RESAMPLING))
        for kind, label in (("class", self.rare and self.rare.label), ("relevant class", self.relevant)):
            if label is not None and label not in self._number:
                raise InputError(unknown_name(kind, str(label), self.labels[:20]))

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """accuracy, f1, macro_f1, matthews and the metrics of a rare class, as far as `metrics` computes them; with one
        label per row, all registered metrics of classes.
        """
        ranked = ("pr_auc", "recall_at_precision_90")
        if self.multi_label:
            return ("accuracy", "f1", "macro_f1", *(ranked if self.rare else ()))
        own = ("f1", *ranked) if self.num_labels == 2 or self.rare else ()
        names = ("accuracy", *own, "macro_f1", "matthews")
        return (*names, *(name for name in scores.class_metrics() if name not in names))

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def problem_type(self) -> str:
        return f"{'multi' if self.multi_label else 'single'}_label_classification"

    def probabilities(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, float64 [rows, labels]; rows sum to 1 unless multi-label."""
        wide = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        return wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)

    @property
    def relevant_number(self) -> int:
        """Output of the relevant class of pairs. Raises InputError if neither the model folder nor the names say which
        it is.
        """
        number = relevant_class(self.labels, self.relevant)
        if number is None:
            raise InputError(
                f"Which of its classes means relevant ({', '.join(self.labels[:20])}) is not known, so it cannot rank: "
                'add "relevant": "CLASS" to maskwright.json of its folder; if the folder has a manifest.json, then run '
                "maskwright doctor FOLDER --accept."
            )
        return number

    def relevance(self, logits: Tensor) -> Tensor:
        """Calibrated log odds of the relevant class of pairs: float64 [rows]; their sigmoid is its probability."""
        number = self.relevant_number
        wide = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        if self.multi_label:
            return wide[:, number]
        others = [other for other in range(self.num_labels) if other != number]
        return wide[:, number] - wide[:, others].logsumexp(dim=-1)

    def decide(self, logits: Tensor, cuts: np.ndarray | float | None = None) -> np.ndarray:
        """Predicts classes: int64 [rows], or bool [rows, labels] if multi-label; independent of the temperature.

        logits: float [rows, labels]; cuts: threshold on the uncalibrated probability of the rare class, one number or
        float [rows]; default: the threshold of the model, if any. Without one the largest logit decides, not the
        probability, because two probabilities can round to the same number.
        """
        if cuts is None:
            cuts = None if self.rare is None or self.rare.threshold is None else self.rare.threshold.value
        wide = np.array(logits.numpy(), dtype=np.float64)
        is_given = None if cuts is None else self._rare_shares(logits) > cuts
        if self.multi_label:
            several: np.ndarray = wide >= 0.0  # a probability of one half
            if is_given is not None:
                several[:, self._rare_number] = is_given
            return several
        if is_given is None:
            best: np.ndarray = wide.argmax(axis=1)
            return best
        wide[:, self._rare_number] = -np.inf
        return np.where(is_given, self._rare_number, wide.argmax(axis=1))

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        wide = [part.double() for part in logits]
        shares = [(part.sigmoid() if self.multi_label else part.softmax(dim=-1)).numpy() for part in wide]
        mean = torch.from_numpy(mean_probabilities(shares, multi_label=self.multi_label))
        return as_logits(mean, self.multi_label).float()

    def joined(self, others: Sequence[Classification]) -> Self:
        tasks: tuple[Classification, ...] = (self, *others)
        joined = copy(self)
        temperatures = [1.0 if task.temperature is None else task.temperature.value for task in tasks]
        is_binary = self.multi_label or self.num_labels == 2
        joined.rare = joined_rare([task.rare for task in tasks], temperatures, is_binary)
        return joined

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"label", "score", "probabilities"} for each row; score is the probability of the label.

        Multi-label: {"labels", "probabilities"}, where `labels` lists those with a probability of at least 0.5. A rare
        class with a threshold is predicted if its probability is above it.
        """
        answers: list[dict[str, Any]] = []
        for row, decided in zip(self.probabilities(logits).tolist(), self.decide(logits), strict=True):
            by_label = dict(zip(self.labels, row, strict=True))
            if self.multi_label:
                chosen = [label for label, applies in zip(self.labels, decided, strict=True) if applies]
                answers.append({"labels": chosen, "probabilities": by_label})
            else:
                best = self.labels[decided]
                answers.append({"label": best, "score": by_label[best], "probabilities": by_label})
        return answers

    def top_window(self, window_logits: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """The window with the highest probability (with max pooling, logit) of each predicted label, and that
        probability.
        """
        shares = self.probabilities(window_logits)  # [windows, labels]
        by_logit = self.multi_label or (self.long is not None and self.long.pool == "max")
        values = window_logits.double() if by_logit else window_logits.double().log_softmax(dim=-1)
        found = {}
        for label in answer["labels"] if self.multi_label else [answer["label"]]:
            number = self._number[label]
            window = int(values[:, number].argmax())
            found[label if self.multi_label else ""] = (window, float(shares[window, number]))
        return found

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """`metrics` and the mean loss. Rows that the temperature or the threshold was fitted on are scored in two
        halves, each with the value fitted on the other half.
        """
        targets, decisions = labeled(examples), self.decisions(logits, examples)
        found = self.metrics(logits, targets, self.out_of_fold_thresholds(logits, examples))
        errors = calibration_errors(decisions.gold, out_of_fold_probabilities(decisions, self.temperature))
        return Evaluation(found | errors, logits, float(self.loss_of(logits, targets)))

    def out_of_fold_thresholds(self, logits: Tensor, examples: Examples) -> np.ndarray | None:
        """Threshold of the rare class for scoring each row: float64 [rows]; None without a threshold."""
        if self.rare is None or not self.rare.tunes or examples.targets is None or not len(examples):
            return None
        return self.rare.thresholds(*self.rare_rows(logits, examples))

    def tune_threshold(self, logits: Tensor, examples: Examples) -> None:
        if self.rare is not None and self.rare.tunes:
            self.rare = self.rare.tuned(*self.rare_rows(logits, examples))

    def rare_rows(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Probability of the rare class and whether it is the gold class, both [rows], and the row keys."""
        is_rare = self._memberships(examples)[:, self._rare_number]
        return self._rare_shares(logits), is_rare, row_keys(examples.rows)

    def _rare_shares(self, logits: Tensor) -> np.ndarray:
        """Uncalibrated probability of the rare class: float64 [rows]."""
        wide = logits.double()
        shares: np.ndarray = (wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)).numpy()
        return shares[:, self._rare_number]

    @property
    def has_one_class(self) -> bool:
        return not self.multi_label

    def for_class(self, label: str) -> Self:
        """Returns the task with `label` as the positive class of the metrics. Raises InputError for an unknown one."""
        if label not in self._number:
            raise InputError(unknown_name("class", label, self.labels[:20]))
        task = copy(self)
        task.rare = self.rare if self.rare is not None and self.rare.label == label else RareClass(label)
        task.main_metric = "pr_auc"
        return task

    @property
    def _rare_number(self) -> int:
        """Output index of the positive class: the rare class, otherwise the second of two."""
        return 1 if self.rare is None else self._number[self.rare.label]

    def confusion(self, logits: Tensor, targets: Tensor) -> list[list[int]] | None:
        if self.multi_label:
            return None
        cells = targets * self.num_labels + torch.from_numpy(self.decide(logits))  # [rows]
        table: list[list[int]] = torch.bincount(cells, minlength=self.num_labels**2).view(self.num_labels, -1).tolist()
        return table

    def class_pairs(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [] if self.multi_label else [(self.labels[int(labeled(examples)[row])], answer["label"])]

    def metrics(self, logits: Tensor, targets: Tensor, cuts: np.ndarray | None = None) -> dict[str, float]:
        """Computes accuracy, macro_f1, matthews and the calibration errors ece and ece_equal_mass.

        With two classes, or with `rare`, also pr_auc, f1 and recall_at_precision_90 of the positive class against the
        rest. Multi-label: accuracy (all labels of a row correct), macro_f1, and f1 and calibration errors over all
        (row, label) decisions; with `rare` its pr_auc and recall_at_precision_90. cuts: see `decide`.
        """
        gold, predicted, number = targets.numpy(), self.decide(logits, cuts), self._rare_number
        decisions = self._decisions(logits, targets, ())
        unseen = None if self.temperature is None else Temperature(self.temperature.value)  # not fitted on these rows
        errors = calibration_errors(decisions.gold, out_of_fold_probabilities(decisions, unseen))
        if self.multi_label:
            gold = gold >= THRESHOLD
            named = {} if self.rare is None else rare_metrics(gold[:, number], self._rare_shares(logits))
            return {
                "accuracy": scores.accuracy(gold, predicted),
                "f1": scores.micro_f1(gold, predicted),
                "macro_f1": scores.macro_f1(gold, predicted),
                **named,
                **errors,
            }
        result = scores.measure(("accuracy", "macro_f1"), gold, predicted)
        if self.num_labels == 2 or self.rare is not None:
            result |= rare_metrics(gold == number, self._rare_shares(logits), predicted == number)
        chosen = {self.main_metric} & set(scores.class_metrics()) - set(result)
        return result | scores.measure(("matthews", *chosen), gold, predicted) | errors

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions:
        """One decision per row, or per row and label if multi-label, with the threshold of the rare class applied."""
        assert examples.targets is not None, "expected labeled rows"
        found = self._decisions(logits, examples.targets, row_keys(examples.rows))
        if self.rare is None or self.rare.threshold is None:
            return found
        given = self.decide(logits, self.out_of_fold_thresholds(logits, examples)).astype(np.int64).reshape(-1)
        return replace(found, given=given)

    def _decisions(self, logits: Tensor, targets: Tensor, keys: Sequence[str]) -> Decisions:
        wide = logits.double().numpy()
        if not self.multi_label:
            return Decisions(wide, targets.numpy(), keys)
        flat = wide.reshape(-1)  # [rows * labels]; the sigmoid of x is the softmax of 0 and x
        gold = (targets.numpy() >= THRESHOLD).astype(np.int64).reshape(-1)
        return Decisions(np.stack([np.zeros_like(flat), flat], axis=1), gold, np.repeat(keys, self.num_labels).tolist())

    def _memberships(self, examples: Examples) -> np.ndarray:
        targets = labeled(examples).numpy()
        if self.multi_label:
            return np.asarray(targets >= THRESHOLD)
        return np.asarray(targets[:, None] == np.arange(self.num_labels))

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
        **long: Any,
    ) -> Classification:
        """Collects the labels of the training rows, sorted (numbers by value).

        The main metric is macro_f1 instead of accuracy if a class is rare. class_weight: None, or "balanced" for
        rows / (labels * rows of the label); multi_label: default: True if a label contains `|` or is empty;
        threshold_for: class whose threshold is tuned on dev examples, for the best F1 or threshold_precision; long: see
        `LongTexts.of`. Raises InputError if there is only one class.
        """
        texts = [row.label for row in train_rows if row.label is not None]
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
        return task

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: ColumnNames = None,
        multi_label: bool | None = None,
        like: Table | None = None,
        reader: Reader | None = None,
        skip_bad_rows: bool = False,
    ) -> Table:
        """Reads labeled texts or pairs: a table (`text.readers.tables`), or a layout with `Reader.read_classes`.

        like: training rows, whose form of labels dev rows have too; reader: that of the file, if it is known.
        """
        found = cls._read_classes(path, columns, None, skip_bad_rows, reader)
        if found is not None:
            return found
        if like is not None:
            multi_label = like.form.multi_label
        return read_table(path, columns=columns, multi_label=multi_label, like=like, skip_bad_rows=skip_bad_rows)

    def read_known(self, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> Table:
        found = self._read_classes(path, columns, self.labels, skip_bad_rows)
        if found is not None:
            return found
        return read_table(
            path, columns=columns, labels=self.labels, multi_label=self.multi_label, skip_bad_rows=skip_bad_rows
        )

    @staticmethod
    def _read_classes(
        path: Path | str,
        columns: ColumnNames,
        labels: Sequence[str] | None,
        skip_bad_rows: bool,
        reader: Reader | None = None,
    ) -> Table | None:
        reader = reader or find_classes_reader(Path(path), columns)
        if reader is None or reader.read_classes is None:
            return None
        table: Table = reader.read_classes(Path(path), columns, labels, skip_bad_rows)
        return table

    def why_unscored(self, rows: Sequence[Row]) -> Unscored | None:
        given = {row.label for row in rows if row.label}
        found = {part for label in given for part in (split_labels(label) if self.multi_label else [label])}
        if not found or not found.isdisjoint(self._number):
            return None
        return Unscored.of_labels(found)

    @classmethod
    def strata(cls, rows: Sequence[Row]) -> list[Collection[str]]:
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
        return torch.tensor(values, dtype=torch.float32 if self.multi_label else torch.int64)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        summary = self.imbalance(examples).summary() if name == "train" and examples.targets is not None else ""
        return [*super().notes(examples, name, max_length), *([summary] if summary else [])]

    def imbalance(self, examples: Examples) -> Imbalance:
        return Imbalance(self.labels, self._memberships(examples).sum(axis=0).tolist(), len(examples))

    def row_probabilities(self, examples: Examples) -> np.ndarray | None:
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
        if self.multi_label:
            return ((logits >= 0) == (targets >= THRESHOLD)).all(dim=-1).sum()
        return (logits.argmax(dim=-1) == targets).sum()

    def baseline(self, data: TaskData) -> Baseline:
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
        rare = self.rare or other.rare
        return (self, other) if rare is None else (self.for_class(rare.label), other.for_class(rare.label))

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        gold, predicted = labeled(examples).numpy(), self.decide(logits, self.out_of_fold_thresholds(logits, examples))
        right = (predicted == (gold >= THRESHOLD)).all(axis=1) if self.multi_label else predicted == gold
        if self.rare is not None:
            shares, is_rare, _ = self.rare_rows(logits, examples)
            parts = np.stack([is_rare, shares], axis=1).astype(np.float64)
            return ScoredPredictions("pr_auc", parts, pr_auc, right)
        if self.multi_label:
            truth = gold >= THRESHOLD
            counts = np.stack([truth.sum(1), predicted.sum(1), (truth & predicted).sum(1)], axis=1).astype(np.float64)
            return ScoredPredictions("f1", counts, f1, right)
        return ScoredPredictions("accuracy", right[:, None].astype(np.float64), mean, right)
