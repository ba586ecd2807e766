"""What a worker computes for a block: the same engine as `maskwright embed` and `maskwright predict`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ..text.readers.tables import Row
from .blocks import NamedRow


class Engine(ABC):
    """Computes results for a stream of rows with valid texts, in order, and in bounded memory."""

    @abstractmethod
    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        """Loads the model."""

    @abstractmethod
    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """The results of each row by column, in order; rows may be read ahead, by another thread."""

    def results(self, rows: Iterable[tuple[NamedRow, Row]]) -> Iterator[tuple[NamedRow, dict[str, Any]]]:
        """Each row with its results by column."""
        waiting: deque[NamedRow] = deque()

        def read() -> Iterator[Row]:
            for named, row in rows:
                waiting.append(named)
                yield row

        for found in self.stream(read()):
            yield waiting.popleft(), found


class EmbeddingEngine(Engine):
    """Sentence embeddings: "vector", float32 [size]."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_embedder

        self.encoder = open_embedder(model, device=device, precision=precision, max_length=max_length)

    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """See Engine."""
        texts = (row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows)
        for vectors in self.encoder.stream(texts):
            yield from ({"vector": vector} for vector in vectors)


class PredictionEngine(Engine):
    """Answers of a fine-tuned model: the fields that `maskwright predict` writes."""

    def __init__(self, model: str, device: str, precision: str, max_length: int | None) -> None:
        from ..api import open_predictor

        self.predictor = open_predictor(model, device=device, precision=precision, max_length=max_length)

    def stream(self, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
        """See Engine."""
        yield from (answer for _, answer in self.predictor.stream(rows))


ENGINES: dict[str, type[Engine]] = {
    "embed": EmbeddingEngine,
    "predict": PredictionEngine,
}
