"""The page Fill mask: what a masked language model expects in the gaps of a text."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ...api import MASKED
from ..asking import Asked, Here, Json, LongText, Name, body

router = APIRouter()


class AskedFill(Asked):
    """A text with masks; words: tokens whose rank is wanted, wherever it is."""

    model: Name
    text: LongText
    top_k: Annotated[int, Field(ge=1, le=1000)] = 8
    words: Annotated[list[Name], Field(max_length=100, default_factory=list)]


@router.post("/api/fill-mask")
def fill_mask(studio: Here, asked: Annotated[AskedFill, body(AskedFill)]) -> Json:
    """`MaskFiller.fill` as it is, and for each mask `asked`: the words that were asked about."""
    found = studio.model_with(asked.model, MASKED)
    with studio.computing:
        filled = found.filler.fill([asked.text], asked.top_k)[0].to_json()
        others = found.filler.fill([asked.text], None, asked.words)[0].to_json() if asked.words else None
    for index, mask in enumerate(filled["masks"]):
        mask["asked"] = others["masks"][index]["predictions"] if others else []
    return Json(filled | {"vocabulary": found.tokenizer.vocab_size})
