"""Base class of text generation tasks: loss and scores over the tokens of a target text."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.model import Model, tokenizer_of
from ...report import Block, WorstError, WorstErrors
from ...text.tokenizers.encoding import TextCounts
from ..base import Evaluation, Task
from ..report import AnyTask, TaskReport
from .examples import Examples, map_batches

LARGEST_LOSS = 700.0  # its exponential still fits in a float64


class TargetTask(Task):
    """Predicts each token of a target given the previous ones; the main metric is token accuracy.

    target_label: batch label with the target tokens, [target tokens]; the label "owner" has the row of each.
    """

    target_label: ClassVar[str]
    num_labels = 0
    problem_type = None

    @abstractmethod
    def target_states(self, model: Model, batch: Batch) -> Tensor:
        """Hidden states that predict each target token: float [target tokens, hidden]."""

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of target tokens in a batch."""
        return {self.name: len(batch.labels[self.target_label])}

    def forward(self, model: Model) -> None:
        """None: answers are decoded token by token."""
        return None

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, 3]: summed loss, correct tokens and tokens of the target of each row."""

        def sums(batch: Batch) -> Tensor:
            logits, target = model.mlm_logits(self.target_states(model, batch)).float(), batch.labels[self.target_label]
            losses = F.cross_entropy(logits, target, reduction="none")  # [target tokens]
            each = torch.stack([losses, (logits.argmax(dim=-1) == target).float(), torch.ones_like(losses)], dim=1)
            return torch.zeros(len(batch), 3, device=each.device).index_add(0, batch.labels["owner"], each)

        return map_batches(examples, sums, device=model.word_embeddings.device, batch_tokens=batch_tokens)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"score", "perplexity"} of the target of each row; score is its token accuracy."""
        return [
            {"score": correct / tokens, "perplexity": _perplexity(loss / tokens)}
            for loss, correct, tokens in logits.tolist()
        ]

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Mean loss over the tokens of each target: float32 [rows]."""
        return logits[:, 0] / logits[:, 2]

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Token accuracy and perplexity over all target tokens; the loss is the mean per token."""
        loss, correct, tokens = logits.double().sum(dim=0).tolist()
        found = {self.main_metric: correct / tokens, "perplexity": _perplexity(loss / tokens)}
        return Evaluation(found, logits, loss / tokens)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether every token of the target is predicted correctly."""
        return bool(answer["score"] == 1.0)


def with_targets(rows: Sequence[Any], file: str | None, skip_bad_rows: bool) -> list[Any]:
    """Returns the rows with a target. Raises InputError for rows without one, unless skipped, and if no row is left."""
    good = [row for row in rows if row.label]
    where = file or "The data"
    if len(good) < len(rows) and not skip_bad_rows:
        first = next(row for row in rows if not row.label)
        raise InputError(
            f"{where} has rows without a target, the first at line {first.line:,}: each needs a source and a target "
            "(--skip-bad-rows skips such rows)."
        )
    if not good:
        raise InputError(f"{where} has no row with a target: each needs a source and a target.")
    return good


def require_rows(rows: Sequence[Any], file: str | None) -> None:
    """Raises InputError for training data without rows."""
    if not rows:
        raise InputError(f"{file or 'The training data'} has no rows: pass sources with targets.")


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, LARGEST_LOSS))


# -- Report blocks of tasks that generate a target text: generated texts of the first dev examples -------------------


SHOWN = 12  # dev examples with their generated texts


class TargetReport(TaskReport[AnyTask]):
    """Blocks of a text generation task.

    output: key of the generated text in a prediction; note: how it is generated, for the table.
    """

    output: ClassVar[str]
    note: ClassVar[str]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the first dev examples with the output of the saved model; none for a run without one model."""
        model = self.data.saved_model()
        if model is None:
            return []
        rows = self.data.dev.rows[:SHOWN]
        length = self.data.max_length
        answers = self.task.predict(model, self.task.unlabeled(rows, tokenizer_of(model), length, counts=TextCounts()))
        errors = [
            WorstError(row.text, str(row.label), answer[self.output], loss=-answer["score"], line=row.line)
            for row, answer in zip(rows, answers, strict=True)
        ]
        return [WorstErrors(errors, title="Generated texts", note=self.note), *self.more(model, rows, answers)]

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Returns further blocks about the generated texts. answers: one prediction for each of the rows."""
        return []
