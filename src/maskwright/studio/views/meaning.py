"""Endpoint of the page Meaning: similarity of texts, or of one word in several contexts, as a matrix and a map."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inference.similarity import text_similarities, word_similarities
from ...tasks.rows.examples import rows_of
from ..requests import Here, Json, Name, RequestModel, ShortText, body, in_part

router = APIRouter()


class SimilarityRequest(RequestModel):
    """Texts and an optional word; layer: None for the last."""

    model: Name
    texts: Annotated[list[ShortText], Field(min_length=1, max_length=60)]
    word: Name = ""
    layer: Annotated[int, Field(ge=0, le=200)] | None = None


@router.post("/api/meaning")
def meaning(studio: Here, asked: Annotated[SimilarityRequest, body(SimilarityRequest)]) -> Json:
    """Returns the output of `similarity --json` plus a 2-D map of the vectors; skips texts without the word."""
    found = studio.model(asked.model)
    layers = "last" if asked.layer is None else asked.layer
    with studio.computing:
        encoder = found.encoder(layers, "none" if asked.word.strip() else None)
        before = encoder.counts.cut_tokens
        if asked.word.strip():
            near = word_similarities(encoder, rows_of(asked.texts), asked.word, skip_missing=True)
        else:
            near = text_similarities(encoder, asked.texts)
        note = in_part(encoder.counts.cut_tokens - before, encoder.max_length)
    places, shares = near.plane()
    return Json(near.to_json() | {"plane": places.tolist(), "shares": list(shares), "note": note})
