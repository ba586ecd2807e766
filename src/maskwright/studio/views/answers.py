"""Endpoints of the pages Classify, Tag, Choose and Answer: predictions of fine-tuned heads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from ...inference.predict import Predictor
from ...tasks.base import AnyRow
from ...tasks.examples import rows_of
from ...tasks.tagging.task import Tagging
from ...text.readers.choices import choices_of
from ..requests import Here, Json, LongText, Name, RequestModel, body, in_part

router = APIRouter()


class AnswerRequest(RequestModel):
    """A text or a text pair."""

    model: Name
    text: LongText
    pair: LongText | None = None


class TagsRequest(RequestModel):
    """A text."""

    model: Name
    text: LongText


class ChoiceRequest(RequestModel):
    """A context, an optional question, and the choices."""

    model: Name
    text: LongText
    question: LongText = ""
    choices: Annotated[list[LongText], Field(min_length=2, max_length=20)]


class QuestionRequest(RequestModel):
    """A question and the context that may contain its answer."""

    model: Name
    question: LongText
    context: LongText
    top_k: Annotated[int, Field(ge=1, le=20)] = 5


@router.post("/api/classify")
def classify(studio: Here, asked: Annotated[AnswerRequest, body(AnswerRequest)]) -> Json:
    """Returns one prediction of `Predictor.predict` and the task."""
    found = studio.model_with(asked.model, "classify")
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text if asked.pair is None else (asked.text, asked.pair)]))
    return Json({"task": found.predictor.task.name} | told)


@router.post("/api/tag")
def tag(studio: Here, asked: Annotated[TagsRequest, body(TagsRequest)]) -> Json:
    """Returns words with tags, and entities with character offsets; spans: character offsets of each word."""
    found = studio.model_with(asked.model, "tag")
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text]))
    assert isinstance(found.predictor.task, Tagging)
    return Json({"spans": found.predictor.task.segment(asked.text)} | told)


@router.post("/api/choose")
def choose(studio: Here, asked: Annotated[ChoiceRequest, body(ChoiceRequest)]) -> Json:
    """Returns the predicted choice and the probability of each."""
    found = studio.model_with(asked.model, "choose")
    rows = choices_of(
        [{"context": asked.text, "question": asked.question, "choices": asked.choices}], with_labels=False
    )
    with studio.computing:
        return Json(_told(found.predictor, rows))


@router.post("/api/answer")
def answer(studio: Here, asked: Annotated[QuestionRequest, body(QuestionRequest)]) -> Json:
    """Returns the answer of `Answerer.answer` and the top-scoring answer spans."""
    found = studio.model_with(asked.model, "answer")
    with studio.computing:
        answered = found.answerer.answer([(asked.question, asked.context)], asked.top_k)[0]
    return Json({"answer": answered.answer, "candidates": answered.candidates})


def _told(predictor: Predictor, rows: Iterable[AnyRow]) -> dict[str, Any]:
    """Returns the prediction for one example, with a message if its text was truncated."""
    before = predictor.counts.cut_tokens
    answer = next(answer for _, answer in predictor.stream(rows))
    return {"answer": answer, "note": in_part(predictor.counts.cut_tokens - before, predictor.max_length)}
