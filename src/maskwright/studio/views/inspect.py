"""Endpoints of the page Inspect: the content of the page that `maskwright inspect` writes, and that page as a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from starlette.responses import Response

from ...core.errors import InputError
from ...http.model_registry import LoadedModel
from ...inspect.compare import ModelComparison, compare_models
from ...inspect.moves import AttentionChanges, head_moves
from ...inspect.page import page_data, render
from ...inspect.view import Inspection, look
from ..model_registry import Studio
from ..requests import Here, Json, LongText, Name, RequestModel, body

MOST_TOKENS = 96  # of each side, as on the page Attention

router = APIRouter()


class InspectRequest(RequestModel):
    """A text or pair (for an encoder-decoder a source and its target), and what to compare it with: another text or
    another model. with_attributions: compute attributions, which takes longest.
    """

    model: Name
    text: LongText
    pair: LongText | None = None
    against: LongText | None = None
    beside: Name | None = None
    with_attributions: bool = False


@router.post("/api/inspect")
def inspect(studio: Here, asked: Annotated[InspectRequest, body(InspectRequest)]) -> Response:
    """Returns the data of the page, as `page_data` packs it."""
    with studio.computing:
        found = _inspect(studio, asked)
    return Response(page_data(found.looks, found.moves, found.comparison), media_type="application/json")


@router.post("/api/inspect/file")
def file(studio: Here, asked: Annotated[InspectRequest, body(InspectRequest)]) -> Json:
    """Returns the HTML file that `maskwright inspect -o` writes."""
    with studio.computing:
        found = _inspect(studio, asked)
    return Json({"html": render(found.looks, found.moves, found.comparison)})


@dataclass(frozen=True)
class _Found:
    looks: list[Inspection]
    moves: AttentionChanges | None = None
    comparison: ModelComparison | None = None


def _inspect(studio: Studio, asked: InspectRequest) -> _Found:
    found = studio.model(asked.model)
    if asked.against and asked.beside:
        raise InputError("Compare with another text or with another model, not with both at once.")
    if asked.beside:
        other = studio.model(asked.beside)
        looks = [_look(found, asked.text, asked), _look(other, asked.text, asked)]
        return _Found(looks, comparison=compare_models(found.model, other.model, [_pair(found, asked.text, asked)]))
    if asked.against:
        looks = [_look(found, asked.text, asked), _look(found, asked.against, asked)]
        return _Found(looks, moves=head_moves(looks[0].attention.main, looks[1].attention.main))
    return _Found([_look(found, asked.text, asked)])


def _look(found: LoadedModel, text: str, asked: InspectRequest) -> Inspection:
    options: dict[str, Any] = {"target": asked.pair} if found.model.has_decoder else {}
    most = min(MOST_TOKENS, found.model.config.max_position_embeddings)
    pair = _pair(found, text, asked)
    return look(
        found.model, pair, name=found.name, max_length=most, with_attributions=asked.with_attributions, **options
    )


def _pair(found: LoadedModel, text: str, asked: InspectRequest) -> str | tuple[str, str]:
    return text if asked.pair is None or found.model.has_decoder else (text, asked.pair)
