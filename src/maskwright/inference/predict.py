"""Answers of a fine-tuned model for texts or pairs of texts: labels with probabilities, or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from ..models.model import Model
from ..tasks import Evaluation, SequenceTask
from ..tasks.examples import Examples, rows_of, tokenize_rows
from ..text.encoding import TextCounts
from ..text.inputs import Text
from ..text.tables import Row
from .ready import room_of, tokenizer_of

# Rows of a file that are answered together, sorted by length inside: as many as these, or of so many characters.
BLOCK_ROWS = 4096
BLOCK_CHARACTERS = 1 << 23


class Predictor:
    """A fine-tuned model and its task.

    max_length: tokens of a text or pair, the rest is cut (None: as in training, at most what the model
    takes). counts: what was cut or unknown in all predictions so far.
    """

    def __init__(self, model: Model, task: SequenceTask, max_length: int | None = None) -> None:
        self.model = model.eval()
        self.task = task
        self.tokenizer = tokenizer_of(model)
        self.max_length = room_of(model, max_length)
        self.counts = TextCounts()

    def predict(self, texts: Iterable[Text], batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """One answer for each text or (text, second text) pair, as `task.decode` words them, in their order."""
        return self.task.decode(self.logits(texts, batch_tokens))

    def logits(self, texts: Iterable[Text], batch_tokens: int | None = None) -> Tensor:
        """The head's outputs: float32 [texts, labels]."""
        return self.task.logits(self.model, self._examples(rows_of(texts)), batch_tokens)

    def stream(self, rows: Iterable[Row], batch_tokens: int | None = None) -> Iterator[tuple[Row, dict[str, Any]]]:
        """Rows with their answers, in their order. `rows` is read block by block, and one block is held."""
        for block in blocks(rows, BLOCK_ROWS, BLOCK_CHARACTERS):
            logits = self.task.logits(self.model, self._examples(block), batch_tokens)
            yield from zip(block, self.task.decode(logits), strict=True)

    def evaluate(
        self, rows: Sequence[Row], *, skip_bad_rows: bool = False, batch_tokens: int | None = None
    ) -> tuple[Examples, Evaluation]:
        """Score labelled rows. Raises RowErrors for labels that the task does not know."""
        examples = self.task.examples(rows, self.tokenizer, self.max_length, skip_bad_rows=skip_bad_rows)
        return examples, self.task.evaluate(self.model, examples, batch_tokens)

    def _examples(self, rows: Sequence[Row]) -> Examples:
        return tokenize_rows(rows, self.tokenizer, self.max_length, counts=self.counts)


def blocks(rows: Iterable[Row], num_rows: int, num_characters: int) -> Iterator[list[Row]]:
    """Cut a stream into lists of at most `num_rows` rows; one that reaches `num_characters` ends there."""
    block: list[Row] = []
    characters = 0
    for row in rows:
        block.append(row)
        characters += len(row.text) + len(row.text_pair or "")
        if len(block) == num_rows or characters >= num_characters:
            yield block
            block, characters = [], 0
    if block:
        yield block


def trained_length(facts: Mapping[str, Any]) -> int | None:
    """The max_length that a model was fine-tuned with, where its maskwright.json says it."""
    length = facts.get("max_length")
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 2 else None
