"""Endpoints of the page Model: blocks with shapes and FLOPs, one parameter, differences to another model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from ...inspect.structure import describe_weight, model_structure, weight_differences
from ..requests import Here, Json, LongText, Name, RequestModel, body, in_part

MOST_TOKENS = 512  # of the text that flows through the model

router = APIRouter()


class StructureRequest(RequestModel):
    """A model, and the text that flows through it."""

    model: Name
    text: LongText


class WeightRequest(RequestModel):
    """A parameter of a model."""

    model: Name
    name: Name


class DifferencesRequest(RequestModel):
    """A model and another one; other: "" for the base of its adapter."""

    model: Name
    other: Name = ""


@router.post("/api/model")
def structure(studio: Here, asked: Annotated[StructureRequest, body(StructureRequest)]) -> Json:
    """Returns the blocks of a model, and whether it is an adapter on a base."""
    model = studio.model(asked.model).model
    with studio.computing:
        most = min(MOST_TOKENS, model.config.max_position_embeddings)
        found = model_structure(model, asked.text, most)
    base = None if model.adapter is None else model.adapter.base
    facts = {"base": base, "bytes": sum(one.nbytes for one in model.parameters())}
    return Json({**found.to_json(), **facts, "note": in_part(found.num_truncated, most)})


@router.post("/api/model/weight")
def weight(studio: Here, asked: Annotated[WeightRequest, body(WeightRequest)]) -> Json:
    """Returns distribution and singular values of a parameter."""
    found = studio.model(asked.model).model
    with studio.computing:
        return Json(describe_weight(found, asked.name))


@router.post("/api/model/differences")
def differences(studio: Here, asked: Annotated[DifferencesRequest, body(DifferencesRequest)]) -> Json:
    """Returns the relative change of each parameter, and the names of those that only this model has."""
    found = studio.model(asked.model).model
    other = studio.model(asked.other).model if asked.other else None
    with studio.computing:
        changes, alone = weight_differences(found, other)
    return Json({"changes": changes, "alone": alone})
