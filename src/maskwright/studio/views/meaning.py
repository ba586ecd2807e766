"""The page Meaning: how near texts are, or one word in several sentences, as a matrix and as a map."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...inference.similarity import text_similarities, word_similarities
from ...tasks.examples import rows_of
from ..asking import Asked, Here, Json, Name, ShortText, body, in_part

router = APIRouter()


class AskedMeaning(Asked):
    """Texts, and perhaps a word of them; layer: None for the last."""

    model: Name
    texts: Annotated[list[ShortText], Field(min_length=1, max_length=60)]
    word: Name = ""
    layer: Annotated[int, Field(ge=0, le=200)] | None = None


@router.post("/api/meaning")
def meaning(studio: Here, asked: Annotated[AskedMeaning, body(AskedMeaning)]) -> Json:
    """What `similarity --json` gives, with the map of the same cosines; texts without the word are left out."""
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
