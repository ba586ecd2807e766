"""Decodes and scores the logits of a classifier.

Two parameters can be fitted after training: a temperature that divides the logits, and a decision threshold for a rare
class. The threshold applies to uncalibrated probabilities, so the temperature never changes a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from ...core.registry import unknown_name
from ..base import Evaluation
from ..evaluation import metrics as scores
from ..evaluation.calibration import Decisions, Temperature, calibration_errors, out_of_fold_probabilities, row_keys
from ..evaluation.ensemble import mean_probabilities
from ..evaluation.rare import RareClass, joined_rare, rare_metrics
from ..rows.examples import Examples, as_logits
from ..rows.relevant import relevant_class
from ..rows.sequence import SequenceTask, labeled

THRESHOLD = 0.5  # multi-label: a label applies from this probability


class ClassAnswers(SequenceTask):
    """Decoding and metrics of `Classification`.

    labels: in the order of the outputs; multi_label: whether a row may have any number of labels; rare: the positive
    class of pr_auc and f1 with its threshold; None for the second of two classes; relevant: the class of pairs that a
    ranking is by; None to find it by its name.
    """

    multi_label: bool
    rare: RareClass | None
    relevant: str | None
    _number: dict[str, int]  # label -> output

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
        """Number of classes."""
        return len(self.labels)

    @property
    def problem_type(self) -> str:
        """single_label_classification or multi_label_classification."""
        return f"{'multi' if self.multi_label else 'single'}_label_classification"

    def probabilities(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, float64 [rows, labels]; rows sum to 1 unless multi-label."""
        wide = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        return wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)

    @property
    def relevant_number(self) -> int:
        """Output of the relevant class of pairs.

        Raises InputError if neither the model folder nor the names of the classes say which class that is.
        """
        number = relevant_class(self.labels, self.relevant)
        if number is None:
            raise InputError(
                f"Which of its classes means relevant ({', '.join(self.labels[:20])}) is not known, so it cannot rank: "
                'add "relevant": "CLASS" to maskwright.json of its folder; if the folder has a manifest.json, then run '
                "maskwright doctor model FOLDER --accept."
            )
        return number

    def relevance(self, logits: Tensor) -> Tensor:
        """Calibrated log odds of the relevant class of pairs: float64 [rows]; their sigmoid is its probability.

        Raises InputError like `relevant_number`.
        """
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
            cuts = None if self.rare is None else self.rare.cut
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
        """Averages probabilities; returns the logits float32 [rows, labels] of their mean."""
        wide = [part.double() for part in logits]
        shares = [(part.sigmoid() if self.multi_label else part.softmax(dim=-1)).numpy() for part in wide]
        mean = torch.from_numpy(mean_probabilities(shares, multi_label=self.multi_label))
        return as_logits(mean, self.multi_label).float()

    def joined(self, others: Sequence[ClassAnswers]) -> Self:
        """Uses the mean threshold of the models for the rare class, if all have one for the same class."""
        tasks: tuple[ClassAnswers, ...] = (self, *others)
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
        """The window with the highest probability of each predicted label; with max pooling, the highest logit.

        The score is the probability of the label in that window.
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
        """`metrics` and the mean loss over rows.

        Rows that the temperature or the threshold of the rare class was fitted on are scored in two halves, each with
        the value fitted on the other half.
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
        """Tunes the threshold of the rare class on the dev examples, if enabled."""
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
        """Whether a text has one class, not any number of labels."""
        return not self.multi_label

    def for_class(self, label: str) -> Self:
        """Returns the task with `label` as the positive class of the metrics; drops a threshold of another class.

        Raises InputError for an unknown class.
        """
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
        """Number of rows by gold class (first index) and predicted class: int [labels, labels]; None if multi-label."""
        if self.multi_label:
            return None
        cells = targets * self.num_labels + torch.from_numpy(self.decide(logits))  # [rows]
        table: list[list[int]] = torch.bincount(cells, minlength=self.num_labels**2).view(self.num_labels, -1).tolist()
        return table

    def class_pairs(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Gold and predicted class of a row; [] if multi-label."""
        return [] if self.multi_label else [(self.labels[int(labeled(examples)[row])], answer["label"])]

    def metrics(self, logits: Tensor, targets: Tensor, cuts: np.ndarray | None = None) -> dict[str, float]:
        """Computes accuracy, macro_f1, matthews and the calibration errors ece and ece_equal_mass.

        With two classes, or with `rare`, also pr_auc, f1 and recall_at_precision_90 of the positive class against the
        rest. Multi-label: accuracy (all labels of a row correct), macro_f1, and f1 and calibration errors over all
        (row, label) decisions; with `rare` its pr_auc and recall_at_precision_90. cuts: see `decide`.
        """
        gold, predicted, number = targets.numpy(), self.decide(logits, cuts), self._rare_number
        decisions = self._decisions(logits, targets, ())
        errors = calibration_errors(decisions.gold, out_of_fold_probabilities(decisions, self._unseen()))
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

    def _unseen(self) -> Temperature | None:
        """The temperature without its fitting rows, for rows that it was not fitted on."""
        return None if self.temperature is None else Temperature(self.temperature.value)

    def _memberships(self, examples: Examples) -> np.ndarray:
        """The classes of each row: bool [rows, labels]."""
        targets = labeled(examples).numpy()
        if self.multi_label:
            return np.asarray(targets >= THRESHOLD)
        return np.asarray(targets[:, None] == np.arange(self.num_labels))
