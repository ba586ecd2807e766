"""Predictions of a fine-tuned model for texts or text pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.progress import note
from ..models.model import Model, tokenizer_of
from ..tasks.base import AnyRow, Evaluation, Task
from ..tasks.evaluation.calibration import abstain
from ..tasks.examples import Examples, blocks, finite_only, rows_of
from ..tasks.sequence import SequenceTask
from ..tasks.windows import text_windows
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import Encoding, TextCounts
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
        if min_confidence is not None and not task.can_abstain:
            raise InputError(f"min_confidence requires a classifier; this is a model for {task.name}.")
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise InputError(f"min_confidence is {min_confidence:g}; it must be between 0 and 1.")
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
        answers = self._checked(self.task.predict(self.model, examples, batch_tokens))
        self.num_abstained += sum(answer.get("abstained", False) for answer in answers)
        return answers

    def _checked(self, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.min_confidence is None:
            return answers
        return [abstain(answer, self.min_confidence) for answer in answers]

    def _examples(self, rows: Sequence[AnyRow]) -> tuple[Examples, TextCounts]:
        """Tokenize rows; returns their own counts too."""
        counts = TextCounts()
        return self.task.unlabeled(rows, self.tokenizer, self.max_length, counts=counts), counts


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

    logits: combined, as from `Task.logits`; scores: metrics of each member by name, {} if the rows are not scored.
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


# -- Tensor shapes per step of one text through a fine-tuned model: tokens x hidden, hidden, labels --------------------
#
# Counts are given in subword tokens, and in whitespace-separated words, which are the mean of their token embeddings.
# Both include the special tokens; counts without the closing [SEP] are given too.


_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Step:
    """One tensor of the forward pass: name, shape and description."""

    name: str
    shape: tuple[int, ...]
    note: str

    @property
    def size(self) -> str:
        """The shape as text, such as 16x768."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class Trace:
    """Tensor shapes of one text.

    tokens: subword tokens that the encoder reads; words: split at whitespace; both with special tokens. num_closing:
    number of special tokens at the end ([SEP]: 1); answer: as from `task.decode`.
    """

    tokens: list[str]
    words: list[str]
    steps: list[Step]
    answer: dict[str, Any]
    num_closing: int = 0

    def summary(self, count: str = "words", *, closing: bool = True) -> str:
        """Return the shapes in one line: 17x768 -> 768 -> 3.

        count: "words" or "pieces" (subword tokens); closing: False excludes the closing special token: 16x768 -> 768
        -> 3.
        """
        start = "word embeddings" if count == "words" else "hidden states"
        steps = {step.name: step for step in self.steps}
        rows, *width = steps[start].shape
        first = Step(start, (rows if closing else rows - self.num_closing, *width), "")
        return " -> ".join(step.size for step in (first, steps["pooled"], steps["logits"]))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        steps = [{"name": step.name, "shape": list(step.shape), "note": step.note} for step in self.steps]
        ways = {
            "whitespace": self.summary("words"),
            "whitespace_without_end": self.summary("words", closing=False),
            "tokenizer": self.summary("pieces"),
        }
        return {"tokens": self.tokens, "words": self.words, "steps": steps, "shapes": ways, **self.answer}


def trace(predictor: Predictor, text: Text) -> Trace:
    """Run one text or pair through the model and record every shape; for several windows those of the first."""
    model, tokenizer, task = predictor.model, predictor.tokenizer, predictor.task
    if not isinstance(task, SequenceTask):
        raise InputError(f"Tensor shapes require a model with one prediction per text; this model is for {task.name}.")
    examples = task.unlabeled(rows_of([text]), tokenizer, predictor.max_length, counts=predictor.counts)
    encoding, *more = (
        tokenizer.encode_batch([text], predictor.max_length)
        if task.long is None
        else text_windows(tokenizer.encode_batch([text])[0], predictor.max_length, task.long)
    )
    batch = examples.sequences.batch([0]).to(model.word_embeddings.device)
    with torch.inference_mode():
        encoded = model.encode(batch, hidden_states=True)
        words, vectors = _by_word(text, encoding, encoded.hidden.float().cpu())
        pooled = model.pool(encoded.hidden, batch)[0]  # [hidden]
        logits = model.logits(batch).float().cpu()  # [1, labels]
    states = encoded.hidden_states or ()
    names = ", ".join(task.labels[:8]) or "one number"
    closing = int(bool(encoding.sequence_ids) and encoding.sequence_ids[-1] is None)
    open_words = len(words) - closing
    steps = [
        Step("pieces", (batch.num_tokens,), f"{tokenizer.kind} tokens with special tokens"),
        Step("embeddings", tuple(states[0].shape), "token + position + type, normalized"),
        Step("hidden states", tuple(encoded.hidden.shape), f"after {len(states) - 1} layers, one vector per token"),
        Step(
            "words",
            (len(words),),
            f"split at whitespace, with special tokens; {open_words} without the closing one",
        ),
        Step("word embeddings", tuple(vectors.shape), "the mean of each word's tokens"),
        Step("pooled", tuple(pooled.shape), "the vector of the first token, through dense and tanh"),
        Step("logits", tuple(logits[0].shape), f"one linear layer: {names}"),
    ]
    if not more:
        return Trace(encoding.tokens, words, steps, task.decode(logits)[0], closing)
    steps.append(Step("windows", (len(more) + 1, task.num_labels), "logits of all windows; this is the first"))
    return Trace(encoding.tokens, words, steps, task.predict(model, examples)[0], closing)


def _by_word(text: Text, encoding: Encoding, hidden: Tensor) -> tuple[list[str], Tensor]:
    """Group subword tokens into whitespace-separated words; each special token is a separate word.

    hidden: float [tokens, hidden]. Returns the words with at least one token and their vectors: float [words, hidden].
    """
    words = [list(_WORD.finditer(source)) for source in ((text,) if isinstance(text, str) else text)]
    groups: dict[tuple[int, int], tuple[str, list[int]]] = {}  # (text, first character), or (-1, token) if special
    for index, (number, (start, _)) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True)):
        if number is None:
            groups[-1, index] = (encoding.tokens[index], [index])
            continue
        for found in words[number]:
            if found.start() <= start < found.end():
                groups.setdefault((number, found.start()), (found.group(), []))[1].append(index)
    vectors = [hidden[tokens].mean(dim=0) for _, tokens in groups.values()]
    return [word for word, _ in groups.values()], torch.stack(vectors) if vectors else hidden.new_zeros(
        0, hidden.shape[1]
    )
