"""Endpoint of the page Fill mask: predictions for the masked tokens of a text."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from ..requests import Here, Json, LongText, Name, RequestModel, body

router = APIRouter()


class FillMaskRequest(RequestModel):
    """A text with mask tokens; words: tokens whose rank and probability are requested."""

    model: Name
    text: LongText
    top_k: Annotated[int, Field(ge=1, le=1000)] = 8
    words: Annotated[list[Name], Field(max_length=100, default_factory=list)]


@router.post("/api/fill-mask")
def fill_mask(studio: Here, asked: Annotated[FillMaskRequest, body(FillMaskRequest)]) -> Json:
    """Returns the result of `MaskFiller.fill`, and for each mask `asked`: the requested words."""
    found = studio.model_with(asked.model, "fill-mask")
    with studio.computing:
        filled = found.filler.fill([asked.text], asked.top_k)[0].to_json()
        others = found.filler.fill([asked.text], None, asked.words)[0].to_json() if asked.words else None
    for index, mask in enumerate(filled["masks"]):
        mask["asked"] = others["masks"][index]["predictions"] if others else []
    return Json(filled | {"vocabulary": found.tokenizer.vocab_size})
