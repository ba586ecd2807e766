"""Extractive question answering: the span of a context that answers a question (Devlin et al. 2019, 4.2 and 4.3).

Question and context are one sequence, split into windows (`windows`); two logits per token score where the answer
begins and ends (`spans`). Its logits are float32 [tokens, 2] over all windows, concatenated. If the training data have
unanswerable questions, the model can predict no answer; the threshold is tuned on dev examples after training, and rows
that it was tuned on are scored with a threshold tuned on other rows (`threshold`).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError
from ...core.randomness import generator
from ...core.util import plural, shorten
from ...data.batch import Batch
from ...models.heads import span_loss
from ...objectives.outcome import LossSums
from ...text.readers.squad import Question
from ...text.tokenizers.encoding import TextCounts
from ..base import Baseline, Evaluation, Rows, TableRow, Targets, Task, TaskData
from ..evaluation.compare import ScoredPredictions, mean
from ..evaluation.rare import Threshold, between, row_key, two_halves
from ..examples import Examples, Forward, TokenLogits
from .windows import BEST, MAX_LENGTH, AnswerCandidates, Windows, find_answers, make_windows

if TYPE_CHECKING:
    from ...models.model import Model
    from ...text.tokenizers.tokenizer import Tokenizer

# -- SQuAD metrics: exact match and F1 (Rajpurkar et al. 2016, section 6.1; 2018, section 5) ------------------------
#
# Answers are lowercased and stripped of punctuation, articles and extra whitespace. Exact match is 1 if the rest is
# equal; F1 compares the words. The best score over several gold answers counts. An unanswerable question is correct
# if no answer is predicted. The rules of version 2.0 apply to all files; version 1.1 differs only for gold answers of
# nothing but articles and punctuation, which 2.0 ignores.

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Lowercases, removes ASCII punctuation and the articles a, an, the, and collapses whitespace."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of an answer ("" for none), each the maximum over the gold answers.

    golds: the gold answers; if it is empty, or they contain only articles and punctuation, the question is
    unanswerable.
    """
    references = [text for text in map(normalize, golds) if text] or [""]
    predicted = normalize(answer)
    return float(predicted in references), max(_f1(predicted.split(), gold.split()) for gold in references)


def _f1(predicted: list[str], reference: list[str]) -> float:
    if not predicted or not reference:
        return float(predicted == reference)
    num_same = (Counter(predicted) & Counter(reference)).total()
    return 2 * num_same / (len(predicted) + len(reference))


@dataclass(frozen=True)
class Scored:
    """Scores of answering and of predicting no answer for each question, to evaluate any threshold.

    keys: identify question and context; has_answer: bool [rows]; answered, unanswered: float64 [rows, 2], exact match
    and F1 of the best span, and of no answer; no_answer_margin: float64 [rows], see `AnswerCandidates`.
    """

    keys: tuple[str, ...]
    has_answer: np.ndarray
    answered: np.ndarray
    unanswered: np.ndarray
    no_answer_margin: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> Scored:
        chosen = np.arange(len(self))[rows]
        keys = tuple(self.keys[row] for row in chosen)
        fields = (self.has_answer, self.answered, self.unanswered, self.no_answer_margin)
        return Scored(keys, *(values[chosen] for values in fields))

    def outcome(self, threshold: float | np.ndarray) -> np.ndarray:
        """Exact match and F1 of each row, with no answer above `threshold` (one, or one for each row): float64 [rows,
        2].
        """
        return np.where((self.no_answer_margin > threshold)[:, None], self.unanswered, self.answered)


def score_all(questions: Sequence[Question], found: Sequence[AnswerCandidates]) -> Scored:
    """Scores the best span of each question against its gold answers."""
    golds = [[gold.text for gold in question.answers or ()] for question in questions]
    best = [answer.spans[0].text if answer.spans else "" for answer in found]
    pairs = [score_answer(text, wanted) for text, wanted in zip(best, golds, strict=True)]
    return Scored(
        tuple(row_key(question.question, question.context) for question in questions),
        np.array([bool(wanted) for wanted in golds], dtype=bool),
        np.array(pairs, dtype=np.float64).reshape(-1, 2),
        np.array([score_answer("", wanted) for wanted in golds], dtype=np.float64).reshape(-1, 2),
        np.array([answer.no_answer_margin for answer in found], dtype=np.float64),
    )


def summarize(outcome: np.ndarray, has_answer: np.ndarray) -> dict[str, float]:
    """Means over all rows, over answerable and over unanswerable questions, as fractions.

    outcome: float64 [rows, 2]; has_answer: bool [rows]. Names: exact_match, f1, has_answer_exact, has_answer_f1,
    no_answer_exact, no_answer_f1; a group without rows is omitted.
    """
    metrics: dict[str, float] = {}
    every = np.ones(len(outcome), dtype=bool)
    for exact, f1, part in (
        ("exact_match", "f1", every),
        ("has_answer_exact", "has_answer_f1", has_answer),
        ("no_answer_exact", "no_answer_f1", ~has_answer),
    ):
        if part.any():
            metrics[exact], metrics[f1] = outcome[part].mean(axis=0).tolist()
    return metrics


# -- No-answer threshold on the no-answer margin, tuned on some rows and evaluated on others -------------------------


def tune_threshold(scored: Scored) -> Threshold:
    """Finds the threshold with the best mean F1; of equals the lowest.

    Tries every cut between two different margins, including no answer for all or none. Raises InputError for no rows.
    """
    if not len(scored):
        raise InputError("Tuning a threshold needs rows: pass questions with known answers.")
    order = np.argsort(scored.no_answer_margin, kind="stable")
    scores = scored.no_answer_margin[order]
    gain = (scored.answered - scored.unanswered)[order, 1]  # of answering over predicting no answer
    totals = np.concatenate([[0.0], np.cumsum(gain)])  # totals[n]: gain of answering the n lowest margins
    cuts = np.flatnonzero(np.concatenate([[True], scores[1:] > scores[:-1], [True]]))  # equal scores stay together
    best = int(cuts[int(np.argmax(np.round(totals[cuts], 9)))])
    return Threshold(between(scores, best), frozenset(scored.keys))


def out_of_fold_outcome(scored: Scored, threshold: Threshold | None, may_refuse: bool | None) -> np.ndarray:
    """Exact match and F1 of each row, with a threshold that was not tuned on it: float64 [rows, 2].

    threshold: of the model, None if not tuned yet; may_refuse: whether no-answer predictions are allowed, None to allow
    them if any row is unanswerable. Rows that the threshold was tuned on (or all, if it is None) are scored in two
    halves, each with the threshold of the other.
    """
    if not (may_refuse or (may_refuse is None and not scored.has_answer.all())):
        return scored.answered
    if threshold is not None and not threshold.seen.intersection(scored.keys):
        return scored.outcome(threshold.value)
    if len(set(scored.keys)) < 2:  # no other rows to tune a threshold on
        return scored.outcome(Threshold().value)
    found = np.empty((len(scored), 2))
    parts = two_halves(scored.keys, scored.has_answer, generator(0, "qa-halves"))
    for own, other in (parts, parts[::-1]):
        found[own] = scored.take(own).outcome(tune_threshold(scored.take(other)).value)
    return found


@dataclass(eq=False)
class QuestionAnswering(Task):
    """Predicts answer spans.

    may_refuse: whether the model may predict no answer; None if unknown, then every question is answered. threshold:
    no-answer margin above which no answer is predicted; None until tuned (0 is used until then).
    """

    name: ClassVar[str] = "qa"
    report: ClassVar[str] = "maskwright.tasks.report:QaReport"
    head = "qa"
    usage = ("answer", {"question": ("Who?",), "context": "your text"})
    main_metric = "f1"
    num_labels = 0
    problem_type = None

    deciding_metrics = ("f1", "exact_match")

    may_refuse: bool | None = None
    threshold: Threshold | None = None

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def from_rows(
        cls, train_rows: Rows, dev_rows: Rows = (), *, train_file: str | None = None, **options: Any
    ) -> QuestionAnswering:
        """Allows no-answer predictions if a training question is unanswerable. Raises InputError if all are."""
        if not any(row.answers for row in train_rows):
            raise InputError(f"{train_file or 'The training data'} has no question with an answer to learn from.")
        return cls(any(row.is_impossible for row in train_rows))

    @classmethod
    def strata(cls, rows: Sequence[Question]) -> list[Collection[str]]:
        return [("no answer" if row.is_impossible else "answer",) for row in rows]

    @classmethod
    def texts_apart(cls, rows: Sequence[Question]) -> list[tuple[str, str | None]]:
        return [(row.context, None) for row in rows]

    def row_target(self, row: Question) -> Sequence[Any]:
        if row.answers is None:
            raise ValueError(f"id {row.id}: the answers are missing")
        return row.answers

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> Windows:
        return make_windows(rows, tokenizer, max_length or MAX_LENGTH, counts=counts)

    def unlabeled(
        self,
        rows: Sequence[Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        counts: TextCounts,
        **windows: Any,
    ) -> Windows:
        """Tokenizes questions, or (question, context) pairs, as windows. windows: options of `make_windows`."""
        return make_windows(as_questions(rows), tokenizer, max_length or MAX_LENGTH, counts=counts, **windows)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        windows = _windows(examples)
        found = []
        if len(windows) > windows.num_rows:
            make = plural(windows.num_rows, f"{name} question makes", f"{name} questions make")
            found.append(f"{make} {len(windows):,} windows of {max_length} tokens.")
        if windows.counts.cut_texts:
            one, many = f"{name} question is truncated", f"{name} questions are truncated"
            found.append(f"{plural(windows.counts.cut_texts, one, many)} to leave tokens for the context.")
        if windows.unreachable:
            answers = plural(len(windows.unreachable), f"{name} answer is", f"{name} answers are")
            found.append(f"{answers} not completely in any window: raise --max-length.")
        return found

    # -- training --------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch)}

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        logits, targets = _padded(model.logits(batch), batch.lengths), batch.labels["sequence"]
        total = span_loss(logits[..., 0], logits[..., 1], targets[:, 0], targets[:, 1]) * len(batch)
        correct = (logits.detach().argmax(dim=1) == targets).all(dim=1).sum()
        return LossSums({self.name: total}, self.counts(batch), {self.name: correct})

    def baseline(self, data: TaskData) -> Baseline:
        """F1 of always predicting no answer: the fraction of questions without one."""
        fraction = sum(row.label == [] for row in data.dev.rows) / max(len(data.dev.rows), 1)
        return Baseline(fraction, "answering nothing")

    def tune_threshold(self, logits: Tensor, examples: Examples) -> None:
        if self.may_refuse:
            self.threshold = tune_threshold(self.scored(logits, examples))

    # -- answers ---------------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward:
        return TokenLogits(model)

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        return torch.cat(list(outputs)).float()

    def found(self, logits: Tensor, examples: Examples, best: int = BEST, **spans: Any) -> list[AnswerCandidates]:
        """The `best` spans of each question. logits: float32 [tokens, 2]; spans: options of `find_answers`."""
        parts = [part.numpy() for part in logits.split(examples.lengths.tolist())]
        return find_answers(_windows(examples), parts, best=best, **spans)

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        for number, other in enumerate(examples[1:], start=1):
            if len(other) != len(examples[0]) or not all(map(np.array_equal, examples[0].input_ids, other.input_ids)):
                raise InputError(
                    f"Model {number} (from 0) tokenizes the questions differently from model 0: spans can be averaged "
                    "only if all models have the same tokenizer and --max-length."
                )
        return super().combine_predictions(logits, examples)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """{"answer", "start", "end", "score", "no_answer_score", "no_answer_margin"} for each question.

        start, end: characters of the original context; score, no_answer_score: probabilities among the best spans.
        Without an answer "answer" is "" and start and end are None.
        """
        return [self.worded(found) for found in self.found(logits, examples)]

    def worded(self, found: AnswerCandidates) -> dict[str, Any]:
        """The prediction from candidate answers as JSON; see `answers`."""
        span = found.best((self.threshold or Threshold()).value if self.may_refuse else None)
        answer = {"answer": "", "start": None, "end": None, "score": found.no_answer_probability}
        if span is not None:
            answer = {"answer": span.text, "start": span.start, "end": span.end, "score": span.probability}
        margin = found.no_answer_margin if np.isfinite(found.no_answer_margin) else None
        return {**answer, "no_answer_score": found.no_answer_probability, "no_answer_margin": margin}

    def refusing(self, may_refuse: bool) -> QuestionAnswering:
        """Returns the task that may predict no answer, with its threshold, or never does."""
        return QuestionAnswering(may_refuse, self.threshold)

    def with_threshold(self, threshold: float) -> QuestionAnswering:
        if not np.isfinite(threshold):
            raise InputError(f"A no-answer threshold must be a finite number, not {threshold}.")
        return QuestionAnswering(True, Threshold(threshold))

    def joined(self, others: Sequence[QuestionAnswering]) -> QuestionAnswering:
        known = [task.threshold for task in (self, *others) if task.threshold is not None]
        each = [task.may_refuse for task in (self, *others)]
        may_refuse = None if all(one is None for one in each) else any(each)
        return QuestionAnswering(may_refuse, Threshold.mean(known) if known else None)

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Mean loss over the windows of each question: float32 [questions]."""
        windows = _windows(examples)
        rows = torch.from_numpy(windows.question)
        total = torch.zeros(windows.num_rows).index_add_(0, rows, _window_losses(logits, windows))
        return total / torch.bincount(rows, minlength=windows.num_rows)

    def scored(self, logits: Tensor, examples: Examples) -> Scored:
        return score_all(_windows(examples).questions, self.found(logits, examples))

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """exact_match and f1, in total and for answerable and unanswerable questions, and the mean loss over windows;
        see `out_of_fold_outcome`.
        """
        scored = self.scored(logits, examples)
        loss = float(_window_losses(logits, _windows(examples)).mean())
        outcome = out_of_fold_outcome(scored, self.threshold, self.may_refuse)
        return Evaluation(summarize(outcome, scored.has_answer), logits, loss)

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        outcome = out_of_fold_outcome(self.scored(logits, examples), self.threshold, self.may_refuse)  # [rows, 2]
        return ScoredPredictions("f1", outcome[:, 1:], mean, outcome[:, 0] == 1.0)

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        golds = _windows(examples).questions[row].label or []
        return score_answer(answer["answer"], golds)[0] == 1.0

    def table_rows(self, answer: Mapping[str, Any]) -> list[TableRow]:
        place = "" if answer["start"] is None else f"{answer['start']}-{answer['end']} "
        return [TableRow("", place + (shorten(answer["answer"]) or "-"), answer["score"])]


def as_questions(rows: Sequence[Any]) -> list[Question]:
    """Converts rows with question (text) and context (text_pair). Raises InputError if a context is missing."""
    for row in rows:
        if row.text_pair is None:
            raise InputError(f"{row.file}, line {row.line}: a question needs its context as the second text.")
    return [
        row if isinstance(row, Question) else Question(str(row.line), row.text, row.text_pair, None, row.line, row.file)
        for row in rows
    ]


def _windows(examples: Examples) -> Windows:
    assert isinstance(examples, Windows)
    return examples


def _padded(logits: Tensor, lengths: list[int]) -> Tensor:
    """Pads [tokens, 2] to [sequences, longest, 2] with -inf, so that padding cannot be an answer."""
    parts = list(logits.float().split(lengths))
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=-torch.inf)


def _window_losses(logits: Tensor, windows: Windows) -> Tensor:
    """The loss of each window: float32 [windows]."""
    if windows.targets is None:
        raise InputError("Unlabeled questions cannot be scored: pass questions with known answers.")
    parts = zip(logits.split(windows.lengths.tolist()), windows.targets, strict=True)
    return torch.stack([F.cross_entropy(part.T, target) for part, target in parts])
