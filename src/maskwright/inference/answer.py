"""Answers to questions from a context: the best pieces of it, with their characters and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.errors import InputError
from ..tasks.qa import QuestionAnswering
from ..tasks.qa_trace import Trace, trace_answer
from ..text.encoding import TextCounts
from ..text.squad import Question
from .predict import Predictor


class Answer(NamedTuple):
    """What `QuestionAnswering.worded` gives, and the best pieces: {"answer", "start", "end", "score"} each."""

    answer: dict[str, Any]
    candidates: list[dict[str, Any]]


class Answerer:
    """A model that answers questions, and whether it may refuse.

    threshold: no-answer margin above which a question is refused; None as the model was trained. counts: what was
    unknown or cut in all questions so far.
    """

    def __init__(self, predictor: Predictor, threshold: float | None = None) -> None:
        if not isinstance(predictor.task, QuestionAnswering):
            raise InputError("This model does not answer questions: fine-tune one with maskwright finetune qa.")
        self.predictor, self.task = predictor, predictor.task
        if threshold is not None:
            self.task = self.task.with_threshold(threshold)

    @property
    def counts(self) -> TextCounts:
        """What was unknown or cut so far."""
        return self.predictor.counts

    def answer(
        self, questions: Sequence[tuple[str, str]], top_k: int = 1, batch_tokens: int | None = None
    ) -> list[Answer]:
        """One answer for each (question, context), with its `top_k` best pieces.

        Raises InputError for an empty question or context.
        """
        rows = [
            Question(str(number), *_checked(question, context, number), None, number, "the questions")
            for number, (question, context) in enumerate(questions, start=1)
        ]
        predictor, task = self.predictor, self.task
        windows = task.unlabelled(rows, predictor.tokenizer, predictor.max_length, counts=predictor.counts)
        found = task.found(task.logits(predictor.model, windows, batch_tokens), windows)
        return [
            Answer(
                task.worded(one),
                [
                    {"answer": span.text, "start": span.start, "end": span.end, "score": span.probability}
                    for span in one.spans[:top_k]
                ],
            )
            for one in found
        ]

    def trace(self, question: str, context: str, answer: Answer, by_tokenizer: bool = False) -> Trace:
        """Where the answer stands among the tokens, split at white space, or by the model's tokenizer."""
        start, end = answer.answer["start"], answer.answer["end"]
        tokenizer = self.predictor.tokenizer if by_tokenizer else None
        return trace_answer(question, context, None if start is None else (start, end), tokenizer)


def _checked(question: str, context: str, number: int) -> tuple[str, str]:
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"Question {number} has an empty {name}: give some text.")
    return question, context
