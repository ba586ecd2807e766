"""Texts of the page Projector: an uploaded file or a sample, embedded in parts and kept for maps and neighbors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError
from ..inference.cluster import Clustering, cluster_vectors
from ..tasks.base import AnyRow
from ..text.readers.tables import Row, read_texts
from .labeled_files import MOST_ROWS, PART_SECONDS
from .opened_files import LastOpened, naming_the_file, sample
from .uploads import Uploads

if TYPE_CHECKING:
    from ..http.model_registry import LoadedModel

SAMPLE = "topics.csv"
BLOCK_TEXTS = 64
MOST_AUTOMATIC = 5000  # texts for which the number of clusters is chosen automatically
OTHERWISE_CLUSTERS = 8
KEPT_FILES = 2  # 77 MB each, of 50,000 texts and 384 dimensions


@dataclass
class EmbeddedTexts:
    """Texts with the embeddings of the first ones."""

    rows: Sequence[AnyRow]
    blocks: list[np.ndarray] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts; both of a pair, joined."""
        return [row.text if row.text_pair is None else f"{row.text} {row.text_pair}" for row in self.rows]

    @property
    def num_done(self) -> int:
        """Number of embedded texts."""
        return sum(map(len, self.blocks))

    @property
    def vectors(self) -> np.ndarray:
        """All embeddings: float32 [texts, size]. Raises InputError if they are not complete."""
        if self.num_done < len(self.rows):
            raise InputError("The texts are not embedded yet: reload the page.")
        if len(self.blocks) > 1:
            self.blocks = [np.concatenate(self.blocks)]
        return self.blocks[0]

    def clusters(self, number: int = 0) -> Clustering:
        """Clusters all texts. number: of clusters, 0 for the one with the best silhouette (of many texts: 8)."""
        automatic = None if len(self.rows) <= MOST_AUTOMATIC else OTHERWISE_CLUSTERS
        return cluster_vectors(self.vectors, self.texts, number or automatic)

    def embed_more(self, model: LoadedModel) -> None:
        """Embeds the next texts, as many as PART_SECONDS allow and at least one block."""
        encoder, texts = model.encoder(), self.texts
        ends = time.monotonic() + PART_SECONDS
        while self.num_done < len(texts):
            start = self.num_done
            self.blocks.append(encoder.vectors(texts[start : start + BLOCK_TEXTS]))
            if time.monotonic() >= ends:
                break


class TextFiles:
    """The texts that were opened last, with their embeddings, by model and file."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self._kept = LastOpened[EmbeddedTexts](KEPT_FILES)

    def open(
        self, model: LoadedModel, file: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> EmbeddedTexts:
        """Returns the texts of a file, or of the sample for "". Raises RowErrors, InputError."""

        def read() -> EmbeddedTexts:
            return EmbeddedTexts(_read(self.uploads.path(file) if file else sample(SAMPLE), columns, skip_bad_rows))

        return self._kept.get(model, (file, tuple(sorted(columns.items())), skip_bad_rows), read)

    def of_rows(self, model: LoadedModel, rows: Sequence[AnyRow]) -> EmbeddedTexts:
        """Returns the texts of rows that are read already. The same list of rows has the same embeddings."""
        return self._kept.get(model, id(rows), lambda: EmbeddedTexts(rows))  # which keeps the rows, and so their `id`


def _read(path: Path, columns: Mapping[str, str], skip_bad_rows: bool) -> list[Row]:
    with naming_the_file(path):
        rows = read_texts(path, columns=columns or None, skip_bad_rows=skip_bad_rows).rows
    if len(rows) > MOST_ROWS:
        raise InputError(f"The file has {len(rows):,} texts: this page shows at most {MOST_ROWS:,}.")
    return rows
