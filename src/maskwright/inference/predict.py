"""Predictions of a fine-tuned model for texts or text pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..core.errors import InputError
from ..core.progress import note
from ..models.model import Model, tokenizer_of
from ..tasks.base import AnyRow, Evaluation, Task
from ..tasks.evaluation.calibration import abstain
from ..tasks.examples import Examples, blocks, finite_only, rows_of
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import TextCounts
from .prepared import Prepared, ahead, as_rows
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
        """Yield rows (texts become rows) with their predictions, in order; at most two blocks are in memory."""
        read = blocks(as_rows(rows), BLOCK_ROWS, BLOCK_CHARACTERS)
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


# -- Ensembles of fine-tuned models: each predicts all rows, and the task averages the outputs -----------------------
#
# Only one model is in memory at a time. Devlin et al. 2018, section 4.2, use ensembles of seven models.


@dataclass(frozen=True)
class Member:
    """One model of an ensemble. name: shown in messages; open: loads the model."""

    name: str
    open: Callable[[], Predictor]


@dataclass(frozen=True)
class EnsemblePredictions:
    """Predictions of an ensemble.

    task: combined task of all members; examples: the rows as tokenized by the first member; logits: combined, as from
    `Task.logits`; scores: metrics of each member by name; evaluation: metrics of the ensemble. The last two are empty
    and None if the rows are not scored.
    """

    task: Task
    examples: Examples
    logits: Tensor = field(repr=False)
    scores: dict[str, dict[str, float]]
    evaluation: Evaluation | None
    counts: TextCounts
    max_length: int

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the texts of each row with the prediction, and the gold label if there is one."""
        answers = self.task.answers(self.logits, self.examples)
        for row, answer in zip(self.examples.rows, answers, strict=True):
            texts = {"text": row.text} if row.text_pair is None else {"text": row.text, "text_pair": row.text_pair}
            yield {**texts, **answer} | ({} if row.label is None else {"gold": row.label})


class Ensemble:
    """Models of one task. Raises InputError if there is no model, or two have the same name."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise InputError("An ensemble needs at least one model.")
        names = [member.name for member in members]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice} is listed twice: pass each model once.")
        self.members = list(members)

    def run(
        self,
        read: Callable[[Task], Sequence[AnyRow]],
        *,
        is_scored: bool = True,
        skip_bad_rows: bool = False,
        batch_tokens: int | None = None,
    ) -> EnsemblePredictions:
        """Predict with every member and combine the predictions.

        read: reads the rows, given the task of the first member; is_scored: the rows have gold labels. Raises
        InputError if a member has another task or other labels, and the errors of reading and tokenizing.
        """
        tasks: list[Task] = []
        read_as: list[Examples] = []
        logits: list[Tensor] = []
        scores: dict[str, dict[str, float]] = {}
        rows: Sequence[AnyRow] = ()
        counts, max_length = TextCounts(), 0
        for number, member in enumerate(self.members, start=1):
            note(f"model {number} of {len(self.members)}: {member.name}")
            predictor = member.open()
            task = predictor.task
            order = _order(tasks[0] if tasks else task, task, member.name)
            rows = rows if tasks else read(task)
            if is_scored:
                examples, found = predictor.evaluate(rows, skip_bad_rows=skip_bad_rows, batch_tokens=batch_tokens)
                scores[member.name] = found.metrics
                part, counts = found.logits, counts if tasks else examples.counts
            else:
                examples = task.unlabeled(rows, predictor.tokenizer, predictor.max_length, counts=predictor.counts)
                part, counts = task.logits(predictor.model, examples, batch_tokens), predictor.counts
            max_length = max_length or predictor.max_length
            tasks.append(task)
            read_as.append(examples)
            part = part if task.temperature is None else part / task.temperature.value  # each at its own temperature
            logits.append(part if order is None else part[:, order])
        combined = copy(tasks[0].joined(tasks[1:]))
        combined.temperature = None
        averaged = combined.combine_predictions(logits, read_as)
        evaluation = combined.score(averaged, read_as[0]) if is_scored else None
        return EnsemblePredictions(combined, read_as[0], averaged, scores, evaluation, counts, max_length)


def _order(first: Task, task: Task, name: str) -> list[int] | None:
    """Return the indices of the labels of `first` in `task`; None if the labels are identical or absent."""
    if type(task) is not type(first):
        raise InputError(f"{name} is fine-tuned for {task.name}, but the first model for {first.name}.")
    if set(task.labels) != set(first.labels) or task.problem_type != first.problem_type:
        raise InputError(
            f"{name} has other labels ({', '.join(task.labels[:8])}) than the first model "
            f"({', '.join(first.labels[:8])}): all members need the same labels."
        )
    return None if task.labels == first.labels else [task.labels.index(label) for label in first.labels]
