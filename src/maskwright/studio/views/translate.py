"""The page Translate: the best translations of each line, with scores."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inference.translate import TranslationSettings
from ..asking import Asked, Here, Json, LongText, Name, body

MOST_LINES = 50

router = APIRouter()


class AskedTranslation(Asked):
    """Texts, how many translations of each, and what `TranslationSettings` takes."""

    model: Name
    texts: Annotated[list[LongText], Field(min_length=1, max_length=MOST_LINES)]
    beams: Annotated[int, Field(ge=1, le=16)] = 4
    num_results: Annotated[int, Field(ge=1, le=16)] = 3
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    to: Name = ""


@router.post("/api/translate")
def translate(studio: Here, asked: Annotated[AskedTranslation, body(AskedTranslation)]) -> Json:
    """`Translating.translate` as it is, and the languages that the model was trained to write."""
    found = studio.model_with(asked.model, ("seq2seq",))
    settings = TranslationSettings(
        beams=asked.beams,
        num_results=min(asked.num_results, asked.beams),
        length_penalty=asked.length_penalty,
        to=asked.to or None,
    )
    with studio.computing:
        translated = found.translator.translate(asked.texts, settings)
    return Json(
        {
            "texts": [
                {"text": text, "translations": [asdict(one) for one in several]}
                for text, several in zip(asked.texts, translated, strict=True)
            ],
            "languages": list(found.translator.task.languages),
        }
    )
