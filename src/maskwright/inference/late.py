"""Late interaction: a vector for each token of a text, compared by MaxSim (Khattab and Zaharia 2020, section 3).

The score of a text for a query is the sum, over the tokens of the query, of the largest dot product with a token of the
text. A query may be filled with mask tokens, whose vectors count too; a text leaves out the vectors of punctuation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.errors import ModelFolderError
from ..data.batch import Batch
from ..models.model import Model, SentenceSettings
from ..models.pooling import unit_length
from ..tasks.examples import Forward, each, rows_of, tokenize_rows
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import TextCounts
from .embed import Encoder
from .prepared import Prepared, single_texts
from .ready import room_of


class LateEncoder(Encoder[list[np.ndarray]]):
    """Encodes each text as one vector per token. `for_role` chooses between queries and texts that are searched.

    Args:
        model: an encoder.
        declared: settings of its folder, with `late`.
        max_length: maximum tokens of any text; None as declared.

    Attributes:
        size: dimensions of a vector.
        counts: truncated and unknown tokens in all calls so far.

    Raises:
        ModelFolderError: The folder is of another kind.
    """

    def __init__(self, model: Model, declared: SentenceSettings | None = None, max_length: int | None = None) -> None:
        if declared is None or declared.late is None:
            raise ModelFolderError(
                "Late interaction needs a folder of a ColBERT model (MultiVectorEncoder), which this one is not."
            )
        super().__init__(model, declared, max_length)
        self.late, self._most = declared.late, room_of(model, max_length)
        self.size = model.config.hidden_size if model.projection is None else model.projection.size
        backend = self.tokenizer.backend
        ids = [backend.token_to_id(word) for word in self.late.skipped]
        self._skipped = [one for one in ids if one is not None and one != self.tokenizer.unk_id]
        fill = self.late.fill_with
        self._fill_id = self.tokenizer.mask_id if fill is None else backend.token_to_id(fill)
        check(
            self._fill_id is not None or not self.late.fill_to,
            f"Queries are filled with {fill or 'the mask token'}, which the tokenizer does not have.",
        )

    def for_role(self, role: str) -> Self:
        found = super().for_role(role)
        length = self.late.query_length if role == "query" else self.late.document_length
        found.max_length = min(length or self.max_length, self._most)
        return found

    def vectors(self, texts: Sequence[Text], batch_tokens: int | None = None) -> list[np.ndarray]:
        """Encode each text, in order: float32 [tokens, size] each."""
        return [one for _, block in self.stream_with_texts(texts, batch_tokens) for one in block]

    predict = vectors

    def scores(self, queries: Sequence[str], texts: Sequence[str], batch_tokens: int | None = None) -> np.ndarray:
        """MaxSim of each query and each text: float32 [queries, texts]."""
        sides = (("query", queries), ("document", texts))
        asked, found = (self.for_role(role).vectors(own, batch_tokens) for role, own in sides)
        return self.compare(asked, found)

    def compare(self, queries: Sequence[np.ndarray], texts: Sequence[np.ndarray]) -> np.ndarray:
        """MaxSim of vectors, float32 [tokens, size] each: float32 [queries, texts], 0 for a text without tokens."""
        scores = np.zeros((len(queries), len(texts)), dtype=np.float32)
        lengths = np.array([len(one) for one in texts])
        filled = lengths.nonzero()[0]
        if len(filled):
            begins = (lengths.cumsum() - lengths)[filled]
            every = np.concatenate([one for one in texts if len(one)])
            for row, query in enumerate(queries):
                best = np.maximum.reduceat(query @ every.T, begins, axis=1)  # [tokens of the query, texts]
                scores[row, filled] = best.mean(axis=0) if self.late.mean else best.sum(axis=0)
        return scores

    def prepare(self, texts: Sequence[Text], prompt: str | None = None) -> Prepared[list[np.ndarray]]:
        """Tokenize at least one text; the result is that of `vectors`. prompt: None for that of the role."""
        counts, late = TextCounts(), self.late
        rows = rows_of(self._prompted(single_texts(texts, "Texts of late interaction"), prompt))
        examples = tokenize_rows(rows, self.tokenizer, self.max_length, counts=counts)
        fill_to = (late.fill_to or 0) if self.role == "query" else 0
        skipped = self._skipped if (self.role or "document") in late.skipped_of else []

        def finish(outputs: Sequence[Tensor]) -> list[np.ndarray]:
            found = []
            for ids, output in zip(examples.input_ids, outputs, strict=True):
                kept = np.ones(len(output), dtype=bool)
                kept[: len(ids)] = ~np.isin(ids, skipped)
                found.append(output.numpy()[kept])
            return found

        forward = LateStates(self.model, self.declared.normalize_tokens, fill_to, self._fill_id or 0, late.attends)
        return Prepared(forward, examples, counts, finish)


@dataclass(frozen=True)
class LateStates(Forward):
    """Token vectors, of length 1 with `normalize`; fill_to, fill_id: of short sequences, which tokens may attend to."""

    normalize: bool
    fill_to: int
    fill_id: int
    attends: bool

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """float32 [tokens, size] for each sequence."""
        batch = self._filled(batch) if min(batch.lengths) < self.fill_to else batch
        vectors = self.model.encode(batch).hidden.float()
        vectors = vectors if self.model.projection is None else self.model.projection(vectors)
        vectors = unit_length(vectors) if self.normalize else vectors
        return each(vectors, batch.lengths)

    def _filled(self, batch: Batch) -> Batch:
        rows = [row.tolist() for row in batch.input_ids.cpu().split(batch.lengths)]
        filled = Batch.from_sequences([row + [self.fill_id] * (self.fill_to - len(row)) for row in rows])
        seen = None if self.attends else torch.tensor(batch.lengths)
        config, positions = self.model.config, filled.position_ids
        if config.positions == "offset" and self.fill_id == config.pad_token_id:  # whose position is its own (RoBERTa)
            count = torch.tensor(batch.lengths).repeat_interleave(torch.tensor(filled.lengths))
            positions = positions.masked_fill(positions >= count, -1)
        return replace(filled, seen=seen, position_ids=positions).to(batch.input_ids.device)


def late_encoder_of(model: Model, name: str | Path | Model, max_length: int | None = None) -> LateEncoder:
    """The encoder for late interaction of a model that was loaded from `name`, with the settings of its folder."""
    return LateEncoder(model, model.sentence, max_length)
