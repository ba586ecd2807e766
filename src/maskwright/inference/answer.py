"""Extractive question answering: answer spans with character offsets and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..core.config import check
from ..core.errors import InputError
from ..tasks.examples import finite_only
from ..tasks.qa.task import QuestionAnswering
from ..tasks.qa.windows import BEST, MAX_ANSWER_TOKENS, MAX_QUESTION_TOKENS, Trace, trace_answer
from ..text.readers.squad import Question
from ..text.tokenizers.encoding import TextCounts
from .predict import Predictor
from .prepared import Prepared, Streams
from .ready import room_of


class Answer(NamedTuple):
    """The answer of `QuestionAnswering.worded`, and candidate spans: {"answer", "start", "end", "score"} each."""

    answer: dict[str, Any]
    candidates: list[dict[str, Any]]


@dataclass(frozen=True)
class AnswerSettings:
    """Settings of one request. Raises ConfigError for values below 1.

    Args:
        top_k: Number of best spans.
        max_length: Tokens of a window, at most those of the model (None: of the model).
        stride: Tokens that neighboring windows share; see `make_windows`.
        max_question_tokens: Longer questions are truncated.
        max_answer_tokens: Longest answer.
        whole: Whether answers are whole words.
        may_refuse: Whether no answer may be predicted (None: as the model was trained).
    """

    top_k: int = 1
    max_length: int | None = None
    stride: int | None = None
    max_question_tokens: int = MAX_QUESTION_TOKENS
    max_answer_tokens: int = MAX_ANSWER_TOKENS
    whole: bool = True
    may_refuse: bool | None = None

    def __post_init__(self) -> None:
        for name in ("top_k", "max_length", "max_question_tokens", "max_answer_tokens"):
            value = getattr(self, name)
            check(value is None or value >= 1, f"{name} is {value}; it must be at least 1.")


DEFAULT = AnswerSettings()


class Answerer(Streams):
    """Answers questions with a fine-tuned model. threshold: no-answer margin above which none is predicted."""

    def __init__(self, predictor: Predictor, threshold: float | None = None) -> None:
        if not isinstance(predictor.task, QuestionAnswering):
            raise InputError("This model does not answer questions: fine-tune one with maskwright finetune qa.")
        self.predictor, self.task = predictor, predictor.task
        if threshold is not None:
            self.task = self.task.with_threshold(threshold)
        self.counts = predictor.counts

    def answer(
        self, questions: Sequence[tuple[str, str]], top_k: int = 1, batch_tokens: int | None = None
    ) -> list[Answer]:
        """Answer each (question, context), with the `top_k` best spans. Raises InputError for an empty one."""
        if not questions:
            return []
        prepared = self.prepare(questions, AnswerSettings(top_k))
        self.counts.include(prepared.counts)
        return prepared.run(batch_tokens)

    predict = answer

    def prepare(
        self, questions: Sequence[tuple[str, str]], settings: AnswerSettings = DEFAULT
    ) -> Prepared[list[Answer]]:
        """Tokenize at least one (question, context); the result is as of `answer`, which raises the same errors."""
        for number, pair in enumerate(questions, start=1):
            for name, text in zip(("question", "context"), pair, strict=True):
                if not isinstance(text, str) or not text.strip():
                    raise InputError(f"Question {number} has an empty {name}: pass some text.")
        rows = [Question(str(number), *pair, None, number, "the questions") for number, pair in enumerate(questions, 1)]
        predictor, task, counts = self.predictor, self.task, TextCounts()
        if settings.may_refuse is not None:
            task = task.refusing(settings.may_refuse)
        windows = task.unlabeled(
            rows,
            predictor.tokenizer,
            predictor.max_length if settings.max_length is None else room_of(predictor.model, settings.max_length),
            counts=counts,
            stride=settings.stride,
            max_question_tokens=settings.max_question_tokens,
        )

        def finish(outputs: Sequence[Tensor]) -> list[Answer]:
            logits = finite_only(task.gather(outputs, predictor.model, windows))
            found = task.found(
                logits,
                windows,
                max(BEST, settings.top_k),
                max_answer_tokens=settings.max_answer_tokens,
                whole=settings.whole,
            )
            answers = []
            for one in found:
                spans = [(span.text, span.start, span.end, span.probability) for span in one.spans[: settings.top_k]]
                keys = ("answer", "start", "end", "score")
                answers.append(Answer(task.worded(one), [dict(zip(keys, span, strict=True)) for span in spans]))
            return answers

        return Prepared(task.forward(predictor.model), windows, counts, finish)

    def trace(self, question: str, context: str, answer: Answer, by_tokenizer: bool = False) -> Trace:
        """Locate the answer among the tokens, split at whitespace or by the model's tokenizer."""
        start, end = answer.answer["start"], answer.answer["end"]
        tokenizer = self.predictor.tokenizer if by_tokenizer else None
        return trace_answer(question, context, None if start is None else (start, end), tokenizer)
