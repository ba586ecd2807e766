"""Endpoint of the page Layers: token representations by layer."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from ...inference.layer_states import layer_states
from ..requests import Here, Json, LongText, Name, RequestModel, body, tokens_read

MOST_TOKENS = 128  # columns that a picture can show

router = APIRouter()


class LayersRequest(RequestModel):
    """A text, the quantity to compute, and for "nearness" the token to compare with."""

    model: Name
    text: LongText
    what: Literal["norms", "changes", "nearness"] = "changes"
    token: Annotated[int, Field(ge=0)] = 0


@router.post("/api/layers")
def layers(studio: Here, asked: Annotated[LayersRequest, body(LayersRequest)]) -> Json:
    """Returns one number per layer and token: `LayerStates.norms`, `changes` or `similarities`."""
    found = studio.model(asked.model)
    with studio.computing:
        most = found.model.config.max_position_embeddings
        states = layer_states(found.model, asked.text, min(most, MOST_TOKENS))
    token = min(asked.token, len(states.tokens) - 1)
    values = states.similarities(token) if asked.what == "nearness" else getattr(states, asked.what)()
    first = 1 if asked.what == "changes" else 0
    return Json(
        {
            "tokens": states.tokens,
            "words": states.words,
            "token": token,
            "layers": list(range(first, first + len(values))),
            "values": values.tolist(),
            "read": tokens_read(len(states.tokens), states.num_truncated, MOST_TOKENS, most),
        }
    )
