"""Endpoints of the part "Why" of the pages Classify, Tag, Answer and Fill mask: reasons of an answer, near changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inspect.compare import differences
from ...inspect.outputs import Output, output_of
from ...inspect.reading import read
from ...inspect.reasons import MAX_TOKENS, explain, one_word_changes
from ...tasks.tagging.task import Tagging
from ...text.words import split_words
from ..model_registry import Studio
from ..requests import Here, Json, LongText, Name, RequestModel, body

router = APIRouter()


class WhyRequest(RequestModel):
    """A text or pair (a question and its context); place: the number of a mask; start: a character of a tagged word."""

    model: Name
    text: LongText
    pair: LongText | None = None
    place: Annotated[int, Field(ge=0)] = 0
    start: Annotated[int, Field(ge=0)] = 0


class DifferencesRequest(RequestModel):
    """Two answers to compare."""

    first: WhyRequest
    second: WhyRequest


@router.post("/api/why")
def why(studio: Here, asked: Annotated[WhyRequest, body(WhyRequest)]) -> Json:
    """Returns the result of `explain` for the predicted answer."""
    with studio.computing:
        return Json(explain(_output(studio, asked)).to_json())


@router.post("/api/why/changes")
def changes(studio: Here, asked: Annotated[WhyRequest, body(WhyRequest)]) -> Json:
    """Returns the changes of one word that change the answer. The model's own language model head proposes words if it
    has one, else `english`.
    """
    with studio.computing:
        found = one_word_changes(_output(studio, asked), studio.proposer_for(asked.model))
    return Json(found.to_json())


@router.post("/api/why/differences")
def compare(studio: Here, asked: Annotated[DifferencesRequest, body(DifferencesRequest)]) -> Json:
    """Returns both results of `explain`, for the answer of the first if both have it, and their differences."""
    with studio.computing:
        first = explain(_output(studio, asked.first))
        output = _output(studio, asked.second)
        second = explain(output, answer=first.answer if output.knows(first.answer) else None)
    return Json({"first": first.to_json(), "second": second.to_json(), "differences": differences(first, second)})


def _output(studio: Studio, asked: WhyRequest) -> Output:
    """Reads the text as the page does: with the same maximum length, and the temperature of a calibrated classifier."""
    found = studio.model(asked.model)
    text = asked.text if asked.pair is None else (asked.text, asked.pair)
    is_masked = found.kind.can("fill-mask")
    room = found.model.config.max_position_embeddings if is_masked else found.predictor.max_length
    most = min(room, MAX_TOKENS + 1)  # one more is rejected, with the number
    if is_masked:
        return output_of(read(found.model, text, max_length=most), asked.place)
    task = found.predictor.task
    temperature = 1.0 if task.temperature is None else task.temperature.value
    segment = task.segment if isinstance(task, Tagging) else split_words
    return output_of(read(found.model, text, max_length=most), 0, asked.start, temperature, segment)
