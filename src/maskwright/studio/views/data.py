"""Endpoints of the page Data set: predictions for a labeled file in parts, and the file with corrected labels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from ...core.errors import InputError
from ...doctor.fix import Place, relabel
from ..files import sample_for, score_rows
from ..requests import FileRequest, Here, Json, Name, RequestModel, body
from .train import columns_of

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
        rows = studio.labeled.rows(found, asked.file, columns_of(asked.columns), skip_bad_rows=asked.skip_bad_rows)
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
def clusters(studio: Here, asked: Annotated[FileRequest, body(FileRequest)]) -> Json:
    """Embeds the next rows; when all are, returns the cluster of each row and the typical words of each cluster."""
    found = studio.model_with(asked.model, "classify", "tag")
    with studio.computing:
        rows = studio.labeled.rows(found, asked.file, columns_of(asked.columns), skip_bad_rows=asked.skip_bad_rows)
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
    found, columns = studio.model_with(asked.model, "classify", "tag"), columns_of(asked.columns)
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
