"""Endpoints of the page Projector: texts embedded in parts, their map, clusters and neighbors."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field

from ...inference.cluster import has_umap, nearest, project
from ..files import SAMPLE, EmbeddedTexts
from ..requests import FileRequest, Here, Json, body
from .train import columns_of

SHOWN_LETTERS = 300  # of a text

router = APIRouter()


class PartRequest(FileRequest):
    """start: the first text that the page does not have."""

    start: Annotated[int, Field(ge=0)] = 0


class MapRequest(FileRequest):
    """method: projection; dimensions: of the map."""

    method: Literal["pca", "umap"] = "pca"
    dimensions: Literal[2, 3] = 2


class ClustersRequest(FileRequest):
    """clusters: their number, 0 for the one with the best silhouette."""

    clusters: Annotated[int, Field(ge=0, le=50)] = 0


class NeighborsRequest(FileRequest):
    """index: the text whose neighbors are wanted."""

    index: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=50)] = 10


@router.post("/api/projector")
def texts(studio: Here, asked: Annotated[PartRequest, body(PartRequest)]) -> Json:
    """Embeds the next texts and returns them from `start`, with their labels, and the number of all."""
    with studio.computing:
        found = _opened(studio, asked)
        found.embed_more(studio.model(asked.model))
    done = found.num_done
    return Json(
        {
            "texts": [text[:SHOWN_LETTERS] for text in found.texts[asked.start : done]],
            "labels": [row.label for row in found.rows[asked.start : done]],
            "lines": [row.line for row in found.rows[asked.start : done]],
            "total": len(found.rows),
            "sample": "" if asked.file else SAMPLE,
            "has_umap": has_umap(),
        }
    )


@router.post("/api/projector/map")
def map_of(studio: Here, asked: Annotated[MapRequest, body(MapRequest)]) -> Json:
    """Returns the place of each text, float32 in base64, and the explained variance of principal components."""
    found = project(_opened(studio, asked).vectors, asked.method, asked.dimensions)
    places = np.ascontiguousarray(found.places, dtype="<f4")
    return Json({"places": b64encode(places.tobytes()).decode("ascii"), "shares": list(found.shares)})


@router.post("/api/projector/clusters")
def clusters(studio: Here, asked: Annotated[ClustersRequest, body(ClustersRequest)]) -> Json:
    """Returns the cluster of each text, and each cluster as `cluster --json` gives it."""
    opened = _opened(studio, asked)
    found = opened.clusters(asked.clusters)
    return Json({"groups": found.groups.tolist(), **found.to_json([text[:SHOWN_LETTERS] for text in opened.texts])})


@router.post("/api/projector/neighbors")
def neighbors(studio: Here, asked: Annotated[NeighborsRequest, body(NeighborsRequest)]) -> Json:
    """Returns the nearest texts of one, with their cosine similarities."""
    opened = _opened(studio, asked)
    near = nearest(opened.vectors, min(asked.index, len(opened.rows) - 1), asked.count)
    return Json({"neighbors": [{"index": index, "cosine": cosine} for index, cosine in near]})


def _opened(studio: Any, asked: FileRequest) -> EmbeddedTexts:
    return studio.texts.open(
        studio.model(asked.model), asked.file, columns_of(asked.columns), skip_bad_rows=asked.skip_bad_rows
    )
