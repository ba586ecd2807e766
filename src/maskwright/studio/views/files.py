"""Endpoints of the pages Data set and Projector: predictions and embeddings of the rows of a file, in parts."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...core.errors import InputError
from ...doctor.fix import Place, relabel
from ...inference.cluster import has_umap, nearest, project
from ..files import SAMPLE, EmbeddedTexts, sample_for, score_rows
from ..requests import FileRequest, Here, Json, Name, RequestModel, body

router = APIRouter()


class PredictionsRequest(FileRequest):
    """start: the first row to predict."""

    start: Annotated[int, Field(ge=0)] = 0


class Correction(RequestModel):
    """A new label of the row of a line, or of one of its words."""

    line: Annotated[int, Field(ge=1)]
    word: Annotated[int, Field(ge=0)] | None = None
    label: Name


class CorrectionsRequest(FileRequest):
    """labels: the corrections."""

    labels: Annotated[list[Correction], Field(min_length=1, max_length=10_000)]


@router.post("/api/data")
def predictions(studio: Here, asked: Annotated[PredictionsRequest, body(PredictionsRequest)]) -> Json:
    """Returns the rows from `start` with their predictions, as many as fit into one part, and the number of all."""
    found = studio.model_with(asked.model, "classify", "tag")
    sample = None if asked.file else sample_for(found)
    with studio.computing:
        rows = studio.labeled.rows(found, asked.file, asked.roles, skip_bad_rows=asked.skip_bad_rows)
        scored = score_rows(found, rows[asked.start :])
    return Json(
        {
            "rows": scored,
            "total": len(rows),
            "sample": "" if sample is None else sample.name,
            "labels": found.predictor.task.labels,
            "numbers": found.kind.can("numbers"),
        }
    )


@router.post("/api/data/clusters")
def clusters_of_rows(studio: Here, asked: Annotated[FileRequest, body(FileRequest)]) -> Json:
    """Embeds the next rows; when all are, returns the cluster of each row and the typical words of each cluster."""
    found = studio.model_with(asked.model, "classify", "tag")
    with studio.computing:
        rows = studio.labeled.rows(found, asked.file, asked.roles, skip_bad_rows=asked.skip_bad_rows)
        embedded = studio.texts.of_rows(found, rows)
        embedded.embed_more(found)
    if embedded.num_done < len(rows):
        return Json({"done": embedded.num_done, "groups": None, "names": []})
    grouped = embedded.clusters()
    names = [f"{number}: {', '.join(one.words[:3])}" for number, one in enumerate(grouped.clusters, start=1)]
    return Json({"done": len(rows), "groups": grouped.groups.tolist(), "names": names})


@router.post("/api/data/corrected")
def corrected(studio: Here, asked: Annotated[CorrectionsRequest, body(CorrectionsRequest)]) -> Response:
    """Returns the file with other labels; everything else is unchanged."""
    found, columns = studio.model_with(asked.model, "classify", "tag"), asked.roles
    path = studio.labeled.path(asked.file, found)
    if path is None:
        raise InputError("Select a labeled file first.")
    rows = studio.labeled.rows(found, asked.file, columns, skip_bad_rows=asked.skip_bad_rows)
    by_line = {row.line: row for row in rows}
    places: dict[Place, str] = {}
    for one in asked.labels:
        row = by_line.get(one.line)
        num_words = len(getattr(row, "words", ()))
        if row is None or (num_words and (one.word is None or one.word >= num_words)):
            raise InputError(f"Line {one.line} is not a row of this file: reload the page.")
        # In CoNLL columns each word has its own line.
        in_lines = bool(num_words and row.lines)
        places[(row.line_of(one.word) if in_lines else one.line, None if in_lines else one.word)] = one.label
    return Response(relabel(path, columns, places), media_type="application/octet-stream")


SHOWN_LETTERS = 300  # of a text


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
    """Returns the cluster of each text, and each cluster as `embed --clusters --json` gives it."""
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
    return studio.texts.open(studio.model(asked.model), asked.file, asked.roles, skip_bad_rows=asked.skip_bad_rows)
