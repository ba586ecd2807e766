"""The pages Classify, Tag, Choose and Answer: what fine-tuned heads say, as `predict` and `answer` say it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from ...inference.predict import Predictor
from ...tasks.base import AnyRow
from ...tasks.examples import rows_of
from ...text.choices import choices_of
from ...text.words import split_words
from ..asking import Asked, Here, Json, LongText, Name, body, in_part
from ..pages import TAGGERS, TEXTS

router = APIRouter()


class AskedAnswer(Asked):
    """A text, or a pair."""

    model: Name
    text: LongText
    pair: LongText | None = None


class AskedTags(Asked):
    """A text."""

    model: Name
    text: LongText


class AskedChoice(Asked):
    """A context, perhaps a question, and texts to choose from."""

    model: Name
    text: LongText
    question: LongText = ""
    choices: Annotated[list[LongText], Field(min_length=2, max_length=20)]


class AskedQuestion(Asked):
    """A question and the text that may hold its answer."""

    model: Name
    question: LongText
    context: LongText
    top_k: Annotated[int, Field(ge=1, le=20)] = 5


@router.post("/api/classify")
def classify(studio: Here, asked: Annotated[AskedAnswer, body(AskedAnswer)]) -> Json:
    """One answer of `Predictor.predict`, and the kind of the task."""
    found = studio.model_with(asked.model, TEXTS)
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text if asked.pair is None else (asked.text, asked.pair)]))
    return Json({"task": found.predictor.task.name} | told)


@router.post("/api/tag")
def tag(studio: Here, asked: Annotated[AskedTags, body(AskedTags)]) -> Json:
    """The words with their tags, and the entities with their places; spans: where each word stands."""
    found = studio.model_with(asked.model, TAGGERS)
    with studio.computing:
        told = _told(found.predictor, rows_of([asked.text]))
    return Json({"spans": split_words(asked.text)} | told)


@router.post("/api/choose")
def choose(studio: Here, asked: Annotated[AskedChoice, body(AskedChoice)]) -> Json:
    """The choice, with the probability of each."""
    found = studio.model_with(asked.model, ("choice",))
    rows = choices_of(
        [{"context": asked.text, "question": asked.question, "choices": asked.choices}], with_labels=False
    )
    with studio.computing:
        return Json(_told(found.predictor, rows))


@router.post("/api/answer")
def answer(studio: Here, asked: Annotated[AskedQuestion, body(AskedQuestion)]) -> Json:
    """The answer of `Answerer.answer` and the best pieces of the context."""
    found = studio.model_with(asked.model, ("qa",))
    with studio.computing:
        answered = found.answerer.answer([(asked.question, asked.context)], asked.top_k)[0]
    return Json({"answer": answered.answer, "candidates": answered.candidates})


def _told(predictor: Predictor, rows: Iterable[AnyRow]) -> dict[str, Any]:
    """The answer for the one row, and a sentence where only a part of it was read."""
    before = predictor.counts.cut_tokens
    answer = next(answer for _, answer in predictor.stream(rows))
    return {"answer": answer, "note": in_part(predictor.counts.cut_tokens - before, predictor.max_length)}
