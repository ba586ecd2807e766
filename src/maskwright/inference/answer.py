"""Extractive question answering: answer spans with character offsets and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..core.errors import InputError
from ..tasks.qa.task import QuestionAnswering
from ..tasks.qa.trace import Trace, trace_answer
from ..tasks.rows.forward import finite_only
from ..text.readers.squad import Question
from ..text.tokenizers.encoding import TextCounts
from .predict import Predictor
from .prepared import Prepared


class Answer(NamedTuple):
    """The answer of `QuestionAnswering.worded`, and candidate spans: {"answer", "start", "end", "score"} each."""

    answer: dict[str, Any]
    candidates: list[dict[str, Any]]


class Answerer:
    """Answers questions with a fine-tuned model.

    threshold: no-answer margin above which no answer is predicted; None for that of the model.
    """

    def __init__(self, predictor: Predictor, threshold: float | None = None) -> None:
        if not isinstance(predictor.task, QuestionAnswering):
            raise InputError("This model does not answer questions: fine-tune one with maskwright finetune qa.")
        self.predictor, self.task = predictor, predictor.task
        if threshold is not None:
            self.task = self.task.with_threshold(threshold)

    @property
    def counts(self) -> TextCounts:
        """Unknown and truncated tokens in all questions so far."""
        return self.predictor.counts

    def answer(
        self, questions: Sequence[tuple[str, str]], top_k: int = 1, batch_tokens: int | None = None
    ) -> list[Answer]:
        """Answer each (question, context), with the `top_k` best spans.

        Raises InputError for an empty question or context.
        """
        if not questions:
            return []
        prepared = self.prepare(questions, top_k)
        self.predictor.counts.include(prepared.counts)
        return prepared.run(batch_tokens)

    def prepare(self, questions: Sequence[tuple[str, str]], top_k: int = 1) -> Prepared[list[Answer]]:
        """Tokenize at least one (question, context); the result is as of `answer`, which raises the same errors."""
        rows = [
            Question(str(number), *_checked(question, context, number), None, number, "the questions")
            for number, (question, context) in enumerate(questions, start=1)
        ]
        predictor, task, counts = self.predictor, self.task, TextCounts()
        windows = task.unlabeled(rows, predictor.tokenizer, predictor.max_length, counts=counts)

        def finish(outputs: Sequence[Tensor]) -> list[Answer]:
            logits = finite_only(task.gather(outputs, predictor.model, windows))
            return [
                Answer(
                    task.worded(one),
                    [
                        {"answer": span.text, "start": span.start, "end": span.end, "score": span.probability}
                        for span in one.spans[:top_k]
                    ],
                )
                for one in task.found(logits, windows)
            ]

        return Prepared(task.forward(predictor.model), windows, counts, finish)

    def trace(self, question: str, context: str, answer: Answer, by_tokenizer: bool = False) -> Trace:
        """Locate the answer among the tokens, split at whitespace or by the model's tokenizer."""
        start, end = answer.answer["start"], answer.answer["end"]
        tokenizer = self.predictor.tokenizer if by_tokenizer else None
        return trace_answer(question, context, None if start is None else (start, end), tokenizer)


def _checked(question: str, context: str, number: int) -> tuple[str, str]:
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"Question {number} has an empty {name}: pass some text.")
    return question, context
