"""Next-sentence prediction (Devlin et al. 2019, task 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model, tokenizer_of
from ..tasks.examples import map_batches, rows_of, tokenize_rows
from ..text.tokenizers.encoding import TextCounts
from .prepared import Streams
from .ready import room_of


class NextSentence(Streams):
    """Predicts whether one sentence follows another. counts: truncated and unknown tokens in all calls so far."""

    def __init__(self, model: Model) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        self.max_length = room_of(model)
        self.counts = TextCounts()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the probability that B follows A for each (A, B): float64 [pairs]."""
        if not pairs:
            return np.zeros(0)
        rows = rows_of(pairs)
        single = next((row.line for row in rows if row.text_pair is None), None)
        if single is not None:
            raise InputError(f"Item {single} is a single text: next-sentence prediction requires pairs.")
        examples = tokenize_rows(rows, self.tokenizer, self.max_length, counts=self.counts)
        logits = map_batches(examples, self._logits, device=self.model.word_embeddings.device)
        follows: np.ndarray = logits.double().softmax(dim=-1)[:, 0].numpy()
        return follows

    predict = probabilities

    def _logits(self, batch: Batch) -> Tensor:
        """Return logits, float [sequences, 2]; column 0 is "B follows A"."""
        return self.model.pair_logits(batch)
