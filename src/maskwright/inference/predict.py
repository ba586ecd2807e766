"""Predictions of a fine-tuned model for texts or text pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

from ..core.errors import InputError
from ..models.model import Model, tokenizer_of
from ..tasks.base import AnyRow, Evaluation, Task
from ..tasks.evaluation.abstention import abstain
from ..tasks.rows.examples import Examples, blocks, rows_of
from ..tasks.rows.forward import finite_only
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import TextCounts
from .ahead import ahead
from .prepared import Prepared
from .ready import usual_length

# Maximum rows and characters per block of a file; a block is sorted by length.
BLOCK_ROWS = 4096
BLOCK_CHARACTERS = 1 << 23


class Predictor:
    """A fine-tuned model and its task.

    max_length: maximum sequence length in tokens (None: that of training); longer texts are truncated, or split into
    windows if the task does so. min_confidence: a classifier abstains below this probability (None: never). counts:
    truncated and unknown tokens in all predictions so far; num_abstained: number of abstentions. Raises InputError for
    a min_confidence outside 0 to 1, or a task without classes.
    """

    def __init__(
        self, model: Model, task: Task, max_length: int | None = None, *, min_confidence: float | None = None
    ) -> None:
        if min_confidence is not None:
            _check_confidence(task, min_confidence)
        self.min_confidence, self.num_abstained = min_confidence, 0
        self.model = model.eval()
        self.task = task
        self.tokenizer = tokenizer_of(model)
        self.max_length = usual_length(model, max_length)
        self.counts = TextCounts()

    def predict(self, texts: Iterable[Text], batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """Return one prediction per text or (text, second text) pair, in order, in the format of `task.answers`."""
        examples, counts = self._examples(rows_of(texts))
        self.counts.include(counts)
        return self._answers(examples, batch_tokens)

    def prepare(self, rows: Sequence[AnyRow], task: Task | None = None) -> Prepared[list[dict[str, Any]]]:
        """Tokenize at least one row; the result has one prediction per row, as of `predict`.

        task: the task with other settings for decoding. Raises InputError for a model that decodes token by token.
        """
        task = task or self.task
        forward = task.forward(self.model)
        if forward is None:
            raise InputError(f"A model for {task.name} decodes token by token: it has no single step to compute.")
        examples, counts = self._examples(rows)

        def finish(outputs: Sequence[Tensor]) -> list[dict[str, Any]]:
            return self._checked(task.finish(outputs, self.model, examples))

        return Prepared(forward, examples, counts, finish)

    def prepare_logits(self, texts: Iterable[Text]) -> Prepared[Tensor]:
        """Tokenize at least one text or pair; the result is as of `logits`."""
        examples, counts = self._examples(rows_of(texts))
        forward = self.task.forward(self.model)
        assert forward is not None, "a task with logits"
        return Prepared(
            forward, examples, counts, lambda outputs: finite_only(self.task.gather(outputs, self.model, examples))
        )

    def logits(self, texts: Iterable[Text], batch_tokens: int | None = None) -> Tensor:
        """Return the logits: float32 [texts, labels], or [words, labels] for token classification."""
        examples, counts = self._examples(rows_of(texts))
        self.counts.include(counts)
        return self.task.logits(self.model, examples, batch_tokens)

    def stream(
        self, rows: Iterable[AnyRow], batch_tokens: int | None = None
    ) -> Iterator[tuple[AnyRow, dict[str, Any]]]:
        """Yield rows with their predictions, in order, with at most two blocks of rows in memory."""
        read = blocks(rows, BLOCK_ROWS, BLOCK_CHARACTERS)
        for block, (examples, counts) in ahead((block, self._examples(block)) for block in read):
            self.counts.include(counts)
            yield from zip(block, self._answers(examples, batch_tokens), strict=True)

    def evaluate(
        self, rows: Sequence[AnyRow], *, skip_bad_rows: bool = False, batch_tokens: int | None = None
    ) -> tuple[Examples, Evaluation]:
        """Score labeled rows. Raises RowErrors for unknown labels."""
        examples = self.task.examples(rows, self.tokenizer, self.max_length, skip_bad_rows=skip_bad_rows)
        return examples, self.task.full_evaluation(self.model, examples, batch_tokens)

    def _answers(self, examples: Examples, batch_tokens: int | None) -> list[dict[str, Any]]:
        """Return one prediction per row."""
        answers = self._checked(self.task.predict(self.model, examples, batch_tokens))
        self.num_abstained += sum(answer.get("abstained", False) for answer in answers)
        return answers

    def _checked(self, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Abstain where the confidence is too low."""
        if self.min_confidence is None:
            return answers
        return [abstain(answer, self.min_confidence) for answer in answers]

    def _examples(self, rows: Sequence[AnyRow]) -> tuple[Examples, TextCounts]:
        """Tokenize rows; returns their own counts too."""
        counts = TextCounts()
        return self.task.unlabeled(rows, self.tokenizer, self.max_length, counts=counts), counts


def _check_confidence(task: Task, min_confidence: float) -> None:
    if not task.can_abstain:
        raise InputError(f"min_confidence requires a classifier; this is a model for {task.name}.")
    if not 0 <= min_confidence <= 1:
        raise InputError(f"min_confidence is {min_confidence:g}; it must be between 0 and 1.")
