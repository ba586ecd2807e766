"""What a worker computes for a block: the same engine as `maskwright embed` and `maskwright predict`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ..text.readers.tables import Row
from .blocks import NamedRow


class Engine(Protocol):
    """Computes results for a stream of rows with valid texts, in order, and in bounded memory."""

    def results(self, rows: Iterable[tuple[NamedRow, Row]]) -> Iterator[tuple[NamedRow, dict[str, Any]]]:
        """Each row with its results by column."""


class EmbeddingEngine:
    """Sentence embeddings."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_embedder

        self.encoder = open_embedder(model, device=device, precision=precision, max_length=max_length)

    def results(self, rows: Iterable[tuple[NamedRow, Row]]) -> Iterator[tuple[NamedRow, dict[str, Any]]]:
        """Each row with its "vector", float32 [size]."""
        waiting: deque[NamedRow] = deque()  # filled by the thread that reads ahead

        def texts() -> Iterator[Any]:
            for named, row in rows:
                waiting.append(named)
                yield row.text if row.text_pair is None else (row.text, row.text_pair)

        for _, vectors in self.encoder.stream_with_texts(texts()):
            for vector in vectors:
                yield waiting.popleft(), {"vector": vector}


class PredictionEngine:
    """Answers of a fine-tuned model."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_predictor

        self.predictor = open_predictor(model, device=device, precision=precision, max_length=max_length)

    def results(self, rows: Iterable[tuple[NamedRow, Row]]) -> Iterator[tuple[NamedRow, dict[str, Any]]]:
        """Each row with the fields that `maskwright predict` writes."""
        waiting: deque[NamedRow] = deque()  # filled by the thread that reads ahead

        def texts() -> Iterator[Row]:
            for named, row in rows:
                waiting.append(named)
                yield row

        for _, answer in self.predictor.stream(texts()):
            yield waiting.popleft(), answer


ENGINES: dict[str, type[EmbeddingEngine] | type[PredictionEngine]] = {
    "embed": EmbeddingEngine,
    "predict": PredictionEngine,
}
