"""Report blocks for classification: class imbalance, confusion matrix, worst errors."""

from __future__ import annotations

from typing import Any

import torch

from ...report import Block, Confusion, Table, WorstError, WorstErrors
from ...report.numbers import percent
from ..base import Evaluation
from ..report import WORST, TaskReport
from ..rows.examples import Examples
from ..rows.sequence import labeled
from .task import Classification

MOST_NAMED = 12  # rare classes named below the table


class ClassificationReport(TaskReport[Classification]):
    """Blocks of a text classifier."""

    def facts(self) -> dict[str, Any]:
        """Adds the tuned threshold of the rare class."""
        rare = self.task.rare
        if rare is None or rare.threshold is None:
            return super().facts()
        return self.threshold_facts(f"threshold of '{rare.label}'", rare.threshold.value) | super().facts()

    def labels(self) -> list[Block]:
        """Adds a table of the class imbalance if a class is rare."""
        return [*super().labels(), *imbalance_table(self.task, self.data.train)]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the confusion matrix and the wrong predictions with the highest confidence; none if multi-label."""
        task, rows = self.task, self.data.dev_rows
        if task.multi_label:
            return []
        targets, logits = labeled(self.data.dev), evaluation.logits
        shares = task.probabilities(logits)
        guess = torch.from_numpy(task.decide(logits, task.out_of_fold_thresholds(logits, self.data.dev)))
        wrong = (guess != targets).nonzero().flatten()
        order = wrong[shares[wrong, guess[wrong]].argsort(descending=True)][:WORST].tolist()
        errors = [
            WorstError(
                rows[i].text, task.labels[int(targets[i])], task.labels[int(guess[i])], float(shares[i, guess[i]]),
                text_pair=rows[i].text_pair, line=rows[i].line,
            )
            for i in order
        ]  # fmt: skip
        counts = torch.zeros(task.num_labels, task.num_labels, dtype=torch.int64)
        counts.index_put_((targets, guess), torch.ones_like(targets), accumulate=True)
        return [Confusion(task.labels, counts.tolist()), WorstErrors(errors)]


def imbalance_table(task: Classification, train: Examples) -> list[Block]:
    """Fraction and effective number of each training class, rarest first; empty if no class is rare."""
    found = task.imbalance(train)
    if not found.rare:
        return []
    numbers, shares = found.effective_numbers, found.shares
    order = sorted(range(len(found.labels)), key=lambda place: (found.counts[place], found.labels[place]))
    rows = [
        (found.labels[place], found.counts[place], percent(shares[place]), f"{numbers[place]:,.0f}") for place in order
    ]
    note = (
        f"Rare: {', '.join(found.rare[:MOST_NAMED])}. The majority-class baseline is correct for "
        f"{percent(found.constant_accuracy)} of the rows, so accuracy is not informative. Effective number of samples: "
        "Cui et al. 2019, with beta 0.999."
    )
    return [Table(["class", "rows", "share", "effective number"], rows, title="Rare classes", note=note)]
