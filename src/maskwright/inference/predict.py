"""Answers of a fine-tuned model for texts or pairs of texts: labels with probabilities, or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

from ..core.errors import InputError
from ..models.model import Model
from ..tasks import Classification, Evaluation, Task
from ..tasks.abstention import abstain
from ..tasks.base import AnyRow
from ..tasks.examples import Examples, blocks, rows_of
from ..text.encoding import TextCounts
from ..text.inputs import Text
from .ahead import ahead
from .ready import tokenizer_of, usual_length

# Rows of a file that are answered together, sorted by length inside: as many as these, or of so many characters.
BLOCK_ROWS = 4096
BLOCK_CHARACTERS = 1 << 23


class Predictor:
    """A fine-tuned model and its task.

    max_length: tokens of a sequence (None: as in training, at most what the model takes); the rest of a text is cut, or
    read in further windows where the task says so. min_confidence: a classifier gives no label below this probability,
    and says so (None: it always answers). counts: what was cut or unknown in all predictions so far; num_abstained: how
    many had no answer. Raises InputError for a min_confidence outside 0 to 1, or for a task without classes.
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
        """One answer for each text or (text, second text) pair, as `task.answers` words them, in their order."""
        rows = rows_of(texts)
        return self._answers(self._examples(rows), batch_tokens)

    def logits(self, texts: Iterable[Text], batch_tokens: int | None = None) -> Tensor:
        """The head's outputs: float32 [texts, labels], or [words, labels] of a tagger."""
        return self.task.logits(self.model, self._examples(rows_of(texts)), batch_tokens)

    def stream(
        self, rows: Iterable[AnyRow], batch_tokens: int | None = None
    ) -> Iterator[tuple[AnyRow, dict[str, Any]]]:
        """Rows with their answers, in their order. `rows` is read block by block, and two blocks are held at most."""
        read = blocks(rows, BLOCK_ROWS, BLOCK_CHARACTERS)
        for block, examples in ahead((block, self._examples(block)) for block in read):
            yield from zip(block, self._answers(examples, batch_tokens), strict=True)

    def evaluate(
        self, rows: Sequence[AnyRow], *, skip_bad_rows: bool = False, batch_tokens: int | None = None
    ) -> tuple[Examples, Evaluation]:
        """Score labelled rows. Raises RowErrors for labels that the task does not know."""
        examples = self.task.examples(rows, self.tokenizer, self.max_length, skip_bad_rows=skip_bad_rows)
        return examples, self.task.full_evaluation(self.model, examples, batch_tokens)

    def _answers(self, examples: Examples, batch_tokens: int | None) -> list[dict[str, Any]]:
        """One answer for each row."""
        answers = self.task.predict(self.model, examples, batch_tokens)
        if self.min_confidence is not None:
            answers = [abstain(answer, self.min_confidence) for answer in answers]
            self.num_abstained += sum(answer["abstained"] for answer in answers)
        return answers

    def _examples(self, rows: Sequence[AnyRow]) -> Examples:
        return self.task.unlabelled(rows, self.tokenizer, self.max_length, counts=self.counts)


def _check_confidence(task: Task, min_confidence: float) -> None:
    if not isinstance(task, Classification):
        raise InputError(f"A least confidence is for classifiers; this is a model for {task.name}.")
    if not 0 <= min_confidence <= 1:
        raise InputError(f"A least confidence is a probability between 0 and 1, not {min_confidence:g}.")
