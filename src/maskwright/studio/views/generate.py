"""Endpoints of the page Generate: suggestions for the next words, and longer continuations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inference.generate import Generation, TextGenerator
from ...models.decoding.rules import Rules
from ..requests import Here, Json, LongText, Name, RequestModel, body, in_part

router = APIRouter()


class SuggestionsRequest(RequestModel):
    """The prompt; k: number of suggestions."""

    model: Name
    text: LongText
    k: Annotated[int, Field(ge=1, le=10)] = 3
    max_new_tokens: Annotated[int, Field(ge=1, le=32)] = 8


class TextRequest(RequestModel):
    """The prompt and the sampling settings; temperature None selects greedy decoding."""

    model: Name
    text: LongText
    max_new_tokens: Annotated[int, Field(ge=1, le=300)] = 50
    temperature: Annotated[float, Field(gt=0, le=10)] | None = 1.0
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    num_results: Annotated[int, Field(ge=1, le=10)] = 3
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


@router.post("/api/complete")
def complete(studio: Here, asked: Annotated[SuggestionsRequest, body(SuggestionsRequest)]) -> Json:
    """Returns the result of `TextGenerator.complete`."""
    found = studio.model_with(asked.model, "generate")
    with studio.computing:
        suggestions = found.generator.complete(asked.text, asked.k, asked.max_new_tokens)
    return Json({"suggestions": [one.to_json() for one in suggestions], "note": _unseen(found.generator, asked.text)})


@router.post("/api/generate")
def generate(studio: Here, asked: Annotated[TextRequest, body(TextRequest)]) -> Json:
    """Returns the result of `TextGenerator.generate`."""
    found = studio.model_with(asked.model, "generate")
    is_greedy = asked.temperature is None
    rules = Rules(greedy=True) if is_greedy else Rules(False, asked.temperature or 1.0, asked.top_k, asked.top_p)
    settings = Generation(
        max_new_tokens=asked.max_new_tokens,
        rules=rules,
        num_results=1 if is_greedy else asked.num_results,
        seed=asked.seed,
    )
    with studio.computing:
        continuations = found.generator.generate([asked.text], settings)[0]
    return Json(
        {"continuations": [one.to_json() for one in continuations], "note": _unseen(found.generator, asked.text)}
    )


def _unseen(generator: TextGenerator, text: str) -> str:
    """Returns a message if the beginning of the text was truncated, else ""."""
    return in_part(max(len(generator.ids_of(text)) - generator.context_length, 0), generator.context_length)
