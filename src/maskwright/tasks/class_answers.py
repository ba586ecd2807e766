"""What the logits of classes say: answers, decisions, a threshold for a rare class, and how good they are.

Two things may be decided after training: a temperature, which divides the logits before they are shown as
probabilities, and a threshold for a rare class. The threshold is one of the probabilities as trained, so that no
temperature changes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.registry import unknown_name
from . import metrics as scores
from .base import Evaluation
from .calibration import Decisions, Temperature, calibration_errors, honest_probabilities, row_keys
from .ensemble import mean_probabilities
from .examples import Examples, as_logits
from .rare import RareClass, joined_rare, rare_metrics
from .sequence import SequenceTask, labelled

THRESHOLD = 0.5  # a label of several applies from this probability


class ClassAnswers(SequenceTask):
    """The half of `Classification` that reads logits.

    labels: in the order of the head's outputs; multi_label: a row may have any number of them; rare: the class that
    pr_auc and f1 are about, with its threshold, None for the second of two.
    """

    multi_label: bool
    rare: RareClass | None
    _number: dict[str, int]  # label -> output

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """accuracy, f1, macro_f1, matthews, and those of a rare class, as far as `metrics` has them."""
        ranked = ("pr_auc", "recall_at_precision_90")
        if self.multi_label:
            return ("accuracy", "f1", "macro_f1", *(ranked if self.rare else ()))
        own = ("f1", *ranked) if self.num_labels == 2 or self.rare else ()
        return ("accuracy", *own, "macro_f1", "matthews")

    @property
    def num_labels(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def problem_type(self) -> str:
        """single_label_classification or multi_label_classification."""
        return f"{'multi' if self.multi_label else 'single'}_label_classification"

    def probabilities(self, logits: Tensor) -> Tensor:
        """float64 [rows, labels], at the temperature; rows sum to 1 unless several labels may apply."""
        wide = logits.double() / (1.0 if self.temperature is None else self.temperature.value)
        return wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)

    def decide(self, logits: Tensor, cuts: np.ndarray | float | None = None) -> np.ndarray:
        """The class of each row: int64 [rows], or bool [rows, labels] with several labels; at any temperature the same.

        logits: float [rows, labels]; cuts: of the rare class, the probability as trained above which it is given, one
        for all rows or float [rows]; None for that of the model, if it has one. Else the largest logit decides, not the
        probability: two of them may round to one number.
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

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Logits float32 [rows, labels] whose probabilities are the mean of the models' probabilities."""
        wide = [part.double() for part in logits]
        shares = [(part.sigmoid() if self.multi_label else part.softmax(dim=-1)).numpy() for part in wide]
        mean = torch.from_numpy(mean_probabilities(shares, multi_label=self.multi_label))
        return as_logits(mean, self.multi_label).float()

    def joined(self, others: Sequence[ClassAnswers]) -> Self:
        """It gives the rare class above the mean of the models' thresholds, where all have one for the same class."""
        tasks: tuple[ClassAnswers, ...] = (self, *others)
        joined = copy(self)
        temperatures = [1.0 if task.temperature is None else task.temperature.value for task in tasks]
        is_binary = self.multi_label or self.num_labels == 2
        joined.rare = joined_rare([task.rare for task in tasks], temperatures, is_binary)
        return joined

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """{"label", "score", "probabilities"} for each row, score being the label's probability.

        With several labels: {"labels", "probabilities"}, where `labels` lists those of at least one half. The rare
        class is given where its probability is above its threshold, if it has one.
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

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """`metrics` and the mean loss over rows.

        Rows that the temperature was fitted on are judged in two halves, each at that of the other; rows that chose the
        threshold of the rare class, or come before it is chosen, each with that of the other.
        """
        targets, decisions = labelled(examples), self.decisions(logits, examples)
        found = self.metrics(logits, targets, self.fair_cuts(logits, examples))
        errors = calibration_errors(decisions.gold, honest_probabilities(decisions, self.temperature))
        return Evaluation(found | errors, logits, float(self.loss_of(logits, targets)))

    def fair_cuts(self, logits: Tensor, examples: Examples) -> np.ndarray | None:
        """The threshold of the rare class by which each row may be scored: float64 [rows]; None without one."""
        if self.rare is None or not self.rare.tunes or examples.targets is None or not len(examples):
            return None
        return self.rare.cuts(*self.rare_rows(logits, examples))

    def settle(self, logits: Tensor, examples: Examples) -> None:
        """Choose the threshold of the rare class on the dev rows, where that is wanted."""
        if self.rare is not None and self.rare.tunes:
            self.rare = self.rare.settled(*self.rare_rows(logits, examples))

    def rare_rows(self, logits: Tensor, examples: Examples) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Probability of the rare class and whether it is the right one, both [rows], and the rows' keys."""
        is_rare = self._memberships(examples)[:, self._rare_number]
        return self._rare_shares(logits), is_rare, row_keys(examples.rows)

    def _rare_shares(self, logits: Tensor) -> np.ndarray:
        """Probability of the rare class as trained, before any temperature: float64 [rows]."""
        wide = logits.double()
        shares: np.ndarray = (wide.sigmoid() if self.multi_label else wide.softmax(dim=-1)).numpy()
        return shares[:, self._rare_number]

    def asked_for(self, label: str) -> Self:
        """The same task with scores about the class `label`. A threshold of another class does not take part.

        Raises InputError for a class that is not there.
        """
        if label not in self._number:
            raise InputError(unknown_name("class", label, self.labels[:20]))
        asked = copy(self)
        asked.rare = self.rare if self.rare is not None and self.rare.label == label else RareClass(label)
        asked.main_metric = "pr_auc"
        return asked

    @property
    def _rare_number(self) -> int:
        """The output that pr_auc is about: the rare class, else the second of two."""
        return 1 if self.rare is None else self._number[self.rare.label]

    def metrics(self, logits: Tensor, targets: Tensor, cuts: np.ndarray | None = None) -> dict[str, float]:
        """accuracy, macro_f1, matthews, and the calibration errors ece and ece_equal_mass; for two classes, or where
        one is named, pr_auc, f1 and recall_at_precision_90 of the second or of the named one against the rest.

        With several labels: accuracy (all labels of a row right), macro_f1, and over all decisions f1 and the
        calibration errors; pr_auc and recall_at_precision_90 of a named one. cuts: as `decide` takes them.
        """
        gold, predicted, number = targets.numpy(), self.decide(logits, cuts), self._rare_number
        decisions = self._decisions(logits, targets, ())
        errors = calibration_errors(decisions.gold, honest_probabilities(decisions, self._unseen()))
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
        result = {"accuracy": scores.accuracy(gold, predicted), "macro_f1": scores.macro_f1(gold, predicted)}
        if self.num_labels == 2 or self.rare is not None:
            result |= rare_metrics(gold == number, self._rare_shares(logits), predicted == number)
        result["matthews"] = scores.matthews(gold, predicted)
        return result | errors

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions:
        """The class of each row; of several labels, for each row and label whether it applies.

        With what is given by the threshold of the rare class, if there is one.
        """
        assert examples.targets is not None, "labelled rows are needed"
        found = self._decisions(logits, examples.targets, row_keys(examples.rows))
        if self.rare is None or self.rare.threshold is None:
            return found
        given = self.decide(logits, self.fair_cuts(logits, examples)).astype(np.int64).reshape(-1)
        return replace(found, given=given)

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

    def _memberships(self, examples: Examples) -> np.ndarray:
        """Which classes each row is of: bool [rows, labels]."""
        targets = labelled(examples).numpy()
        if self.multi_label:
            return np.asarray(targets >= THRESHOLD)
        return np.asarray(targets[:, None] == np.arange(self.num_labels))
