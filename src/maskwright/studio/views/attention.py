"""Endpoints of the page Attention: weights of every head, their computation, and known attention patterns."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from pydantic import Field

from ...core.errors import InputError
from ...inspect.attention import AttentionMap
from ...inspect.attention import attention as attention_in
from ...inspect.heads import PatternScores, clearest_head, describe_head, find_token_heads, patterns_of
from ...inspect.steps import query_key
from ...models.model import Model
from ..requests import Here, Json, LongText, Name, RequestModel, body, tokens_read

MOST_TOKENS = 96  # of a side: more are no picture
SHOWN_HEADS = 5

router = APIRouter()


class AttentionRequest(RequestModel):
    """A text, a text pair, or a source and its target for an encoder-decoder.

    kind: attention type, "" for the main one, which also replaces an unknown one; layer, head: numbers from 1, 0 for
    the head with the clearest pattern; numbers that are too large select the last one; token: index of a token for
    which heads that attend to it are ranked, too.
    """

    model: Name
    text: LongText
    pair: LongText | None = None
    kind: Name = ""
    layer: Annotated[int, Field(ge=0)] = 0
    head: Annotated[int, Field(ge=0)] = 0
    token: Annotated[int, Field(ge=0)] | None = None


class NeuronsRequest(AttentionRequest):
    """token: index of the query token to explain."""

    token: Annotated[int, Field(ge=0)] = 0


@router.post("/api/attention")
def attention(studio: Here, asked: Annotated[AttentionRequest, body(AttentionRequest)]) -> Json:
    """Returns the weights of one head, all heads quantized to 256 levels, and the top heads per pattern."""
    model = studio.model(asked.model).model
    options = _options(model, asked)
    with studio.computing:
        found = attention_in(model, _text(model, asked), **options)
    shown = found.of(asked.kind if asked.kind in {one.kind for one in found.maps} else None)
    patterns = patterns_of(shown)
    to_token = None if asked.token is None else find_token_heads(shown, asked.token)
    layer, head = _head(asked, shown, patterns)
    steps = np.rint(shown.weights * 255).astype(np.uint8)  # [layers, heads, queries, keys]
    return Json(
        {
            "kinds": [{"kind": one.kind, "source": one.source} for one in found.maps],
            "kind": shown.kind,
            "source": shown.source,
            "is_given": found.is_given,
            "queries": list(shown.queries.labels),
            "keys": list(shown.keys.labels),
            "layers": len(shown.layers),
            "heads": len(shown.heads),
            "layer": layer,
            "head": head,
            "weights": shown.of(layer, head).tolist(),
            "all": b64encode(steps.tobytes()).decode("ascii"),
            "finding": describe_head(patterns, layer, head),
            "patterns": [one.to_json(SHOWN_HEADS) for one in (to_token, *patterns) if one],
            "read": _read(model, shown),
        }
    )


@router.post("/api/attention/neurons")
def neurons(studio: Here, asked: Annotated[NeuronsRequest, body(NeuronsRequest)]) -> Json:
    """Returns one query, all keys, their elementwise products, the attention scores and the weights."""
    model = studio.model(asked.model).model
    with studio.computing:
        text, options = _text(model, asked), _options(model, asked)
        found = query_key(model, text, asked.kind or None, **options)
    layer, head = _head(asked, found.map)
    if asked.token >= len(found.map.queries):
        raise InputError(f"Token {asked.token} is not there: the text has tokens 0 to {len(found.map.queries) - 1}.")
    place = (layer - 1, head - 1)
    return Json(
        {
            "layer": layer,
            "head": head,
            "token": asked.token,
            "keys": list(found.map.keys.labels),
            "query": found.query[place][asked.token].tolist(),
            "key": found.key[place].tolist(),
            "products": found.products(layer, head, asked.token).tolist(),
            "scale": found.scale,
            "scores": found.scores[place][asked.token].tolist(),
            "weights": found.map.of(layer, head)[asked.token].tolist(),
            "is_causal": found.map.is_causal,
        }
    )


def _head(
    asked: AttentionRequest, map: AttentionMap, patterns: Sequence[PatternScores] | None = None
) -> tuple[int, int]:
    """Returns the layer and the head to show. patterns: those of the map, if they are known."""
    if not asked.layer or not asked.head:
        return clearest_head(patterns_of(map) if patterns is None else patterns)
    return min(asked.layer, map.layers[-1]), min(asked.head, map.heads[-1])


def _read(model: Model, map: AttentionMap) -> str:
    """Returns how many tokens of the text are read; of two different sides, of each."""
    most = model.config.max_position_embeddings
    key, query = (tokens_read(len(side), side.num_truncated, MOST_TOKENS, most) for side in (map.keys, map.queries))
    return key if map.keys == map.queries else f"Source: {key} Target: {query}"


def _text(model: Model, asked: AttentionRequest) -> str | tuple[str, str]:
    """Returns the text, or the text pair for an encoder that supports pairs."""
    return asked.text if asked.pair is None or model.has_decoder else (asked.text, asked.pair)


def _options(model: Model, asked: AttentionRequest) -> dict[str, Any]:
    """Returns the maximum length and the target of an encoder-decoder; without a target, generates one."""
    room = {"max_length": min(MOST_TOKENS, model.config.max_position_embeddings)}
    return {**room, "target": asked.pair} if model.has_decoder else room
