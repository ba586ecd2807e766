"""Endpoint of the page Meaning: similarity of texts, or of one word in several contexts, as a matrix and a map."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...core.errors import RowErrors
from ...core.util import plural
from ...http.model_registry import LoadedModel
from ...inference.similarity import Similarities, text_similarities, word_similarities
from ...tasks.examples import rows_of
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
    """Returns the output of `similarity --json` plus a 2-D map of the vectors.

    Whole texts are compared without a word, and with a word that is not in all of them.
    """
    found = studio.model(asked.model)
    word = asked.word.strip()
    with studio.computing:
        try:
            near, note = _compared(found, asked, word)
        except RowErrors as error:
            near, note = _compared(found, asked, "")
            missing = plural(len(error.rows), "sentence does", "sentences do")
            note = f"{missing} not contain the word “{word}”: whole sentences are compared. {note}".strip()
    places, shares = near.plane()
    return Json(near.to_json() | {"plane": places.tolist(), "shares": list(shares), "note": note})


def _compared(found: LoadedModel, asked: SimilarityRequest, word: str) -> tuple[Similarities, str]:
    """Returns the similarities of `word` or, if it is "", of whole texts, and how much was truncated."""
    encoder = found.encoder("last" if asked.layer is None else asked.layer, "none" if word else None)
    before = encoder.counts.cut_tokens
    if word:
        near = word_similarities(encoder, rows_of(asked.texts), word)
    else:
        near = text_similarities(encoder, asked.texts)
    return near, in_part(encoder.counts.cut_tokens - before, encoder.max_length)
