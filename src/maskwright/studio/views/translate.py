"""Endpoints of the page Translate: the best translations of each line with scores, and cross-attention weights."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inference.translate import TranslationSettings
from ...tasks.translation import NO_ATTENTION, alignments, attends, shown_attention
from ..requests import Here, Json, LongText, Name, RequestModel, body, in_part

MOST_LINES = 50
MOST_WORDS = 96  # of a side: more are no picture

router = APIRouter()


class TranslationRequest(RequestModel):
    """Texts, the number of translations per text, and the fields of `TranslationSettings`."""

    model: Name
    texts: Annotated[list[LongText], Field(min_length=1, max_length=MOST_LINES)]
    beams: Annotated[int, Field(ge=1, le=16)] = 4
    num_results: Annotated[int, Field(ge=1, le=16)] = 3
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    to: Name = ""


class AlignmentRequest(RequestModel):
    """A text, one of its translations, and the requested target language, "" for none."""

    model: Name
    text: LongText
    translation: LongText
    to: Name = ""


@router.post("/api/translate")
def translate(studio: Here, asked: Annotated[TranslationRequest, body(TranslationRequest)]) -> Json:
    """Returns the result of `TextTranslator.translate` and the target languages of the model.

    If the model has no attention, the result includes a message about it.
    """
    found = studio.model_with(asked.model, "translate")
    settings = TranslationSettings(
        beams=asked.beams,
        num_results=min(asked.num_results, asked.beams),
        length_penalty=asked.length_penalty,
        to=asked.to or None,
    )
    translator = found.translator
    with studio.computing:
        before = translator.counts.cut_tokens
        translated = translator.translate(asked.texts, settings)
        note = in_part(translator.counts.cut_tokens - before, translator.max_length)
    return Json(
        {
            "texts": [
                {"text": text, "translations": [asdict(one) for one in several]}
                for text, several in zip(asked.texts, translated, strict=True)
            ],
            "languages": list(translator.task.languages),
            "note": note,
            "unaligned": None if attends(found.model) else NO_ATTENTION,
        }
    )


@router.post("/api/translate/alignment")
def alignment(studio: Here, asked: Annotated[AlignmentRequest, body(AlignmentRequest)]) -> Json:
    """Returns `alignments` of one text for the first MOST_WORDS words of either side, and the kind of attention."""
    found = studio.model_with(asked.model, "translate")
    translator = found.translator
    pair = translator.source_of(asked.text, asked.to or None), asked.translation
    with studio.computing:
        (own,) = alignments(found.model, translator.task, [pair], translator.max_length)
    return Json(
        {
            "source": shown_attention(found.model),
            "read": own.source[:MOST_WORDS],
            "written": own.target[:MOST_WORDS],
            "weights": own.weights[:MOST_WORDS, :MOST_WORDS].tolist(),
            "most": MOST_WORDS if max(own.weights.shape) > MOST_WORDS else None,
        }
    )
