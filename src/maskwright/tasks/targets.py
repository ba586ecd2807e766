"""What tasks have in common whose answers are texts of their own: losses and scores are those of a target's tokens."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model
from .base import Evaluation, Task
from .examples import Examples, map_batches

LARGEST_LOSS = 700.0  # of which a float64 holds the exponential


class TargetTask(Task):
    """Guesses the tokens of a target, given those before each.

    wanted: the label of a batch that holds the targets' tokens, [target tokens]; "owner" says whose each is. The main
    metric is the share of right guesses.
    """

    wanted: ClassVar[str]
    num_labels = 0
    problem_type = None

    @abstractmethod
    def guessing(self, model: Model, batch: Batch) -> Tensor:
        """What guesses each token of the targets: float [target tokens, hidden]."""

    def counts(self, batch: Batch) -> dict[str, int]:
        """Tokens of the targets of a batch."""
        return {self.name: len(batch.labels[self.wanted])}

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, 3]: loss, right guesses and tokens of each row's target."""

        def sums(batch: Batch) -> Tensor:
            logits, wanted = model.mlm_logits(self.guessing(model, batch)).float(), batch.labels[self.wanted]
            losses = F.cross_entropy(logits, wanted, reduction="none")  # [target tokens]
            each = torch.stack([losses, (logits.argmax(dim=-1) == wanted).float(), torch.ones_like(losses)], dim=1)
            return torch.zeros(len(batch), 3, device=each.device).index_add(0, batch.labels["owner"], each)

        return map_batches(examples, sums, device=model.word_embeddings.device, batch_tokens=batch_tokens)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"score", "perplexity"} of each row's target: the part of its tokens guessed right."""
        return [
            {"score": correct / tokens, "perplexity": _perplexity(loss / tokens)}
            for loss, correct, tokens in logits.tolist()
        ]

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Mean over the tokens of each target: float32 [rows]."""
        return logits[:, 0] / logits[:, 2]

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Accuracy and perplexity over all tokens of the targets; the loss is their mean."""
        loss, correct, tokens = logits.double().sum(dim=0).tolist()
        found = {self.main_metric: correct / tokens, "perplexity": _perplexity(loss / tokens)}
        return Evaluation(found, logits, loss / tokens)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether every token of the target is guessed right."""
        return bool(answer["score"] == 1.0)


def with_targets(rows: Sequence[Any], file: str | None, skip_bad_rows: bool) -> list[Any]:
    """The rows that have a target. Raises InputError where one has none, unless such rows are skipped, and where no row
    is left.
    """
    good = [row for row in rows if row.label]
    where = file or "The data"
    if len(good) < len(rows) and not skip_bad_rows:
        first = next(row for row in rows if not row.label)
        raise InputError(
            f"{where} has rows without a target, the first at line {first.line:,}: each needs a source and a target "
            "(--skip-bad-rows leaves such rows out)."
        )
    if not good:
        raise InputError(f"{where} has no row with a target: each needs a source and a target.")
    return good


def require_rows(rows: Sequence[Any], file: str | None) -> None:
    """Raise InputError for training data without a row."""
    if not rows:
        raise InputError(f"{file or 'The training data'} has no row: sources with targets are needed.")


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, LARGEST_LOSS))
