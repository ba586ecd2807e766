"""Sparse text embeddings by a masked language model: one weight for each token of the vocabulary.

SPLADE (Formal et al. 2021, equation 1; v2, equation 6): w = max over the tokens of the text (or their sum) of
log(1 + relu(logit)). Their dot product scores a passage for a query, and most weights are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import ModelFolderError
from ..models.model import Model, SentenceSettings
from ..tasks.examples import rows_of, tokenize_rows
from ..tasks.similarity import SparseStates
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import TextCounts
from .embed import Encoder
from .prepared import Prepared

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class SparseEncoder(Encoder["csr_matrix"]):
    """Encodes texts as sparse embeddings.

    Args:
        model: with a masked-language-model head.
        declared: settings of its folder; without `sparse`, the maximum of log(1 + relu(logit)).
        max_length: maximum sequence length in tokens, beyond which texts are truncated; None as declared.

    Attributes:
        size: dimensions, the vocabulary.
        counts: truncated and unknown tokens in all calls so far.

    Raises:
        ModelFolderError: The model has no masked-language-model head.
    """

    def __init__(self, model: Model, declared: SentenceSettings | None = None, max_length: int | None = None) -> None:
        if model.head_name not in ("mlm", "pretraining"):
            raise ModelFolderError(
                "Sparse embeddings need a model that predicts masked tokens, such as a SPLADE model: this one has no "
                "such head."
            )
        super().__init__(model, declared, max_length)
        self.size = model.config.vocab_size

    def vectors(self, texts: Sequence[Text], batch_tokens: int | None = None) -> csr_matrix:
        """Encode each text or pair, in order: float32 [texts, vocab]."""
        from scipy.sparse import csr_matrix, vstack

        blocks = [found for _, found in self.stream_with_texts(texts, batch_tokens)]
        return vstack(blocks, format="csr") if blocks else csr_matrix((0, self.size), dtype=np.float32)

    def prepare(self, texts: Sequence[Text], prompt: str | None = None) -> Prepared[csr_matrix]:
        """Tokenize at least one text or pair; the result is that of `vectors`. prompt: None for the declared one."""
        counts = TextCounts()
        rows = rows_of(self._prompted(texts, prompt))
        examples = tokenize_rows(rows, self.tokenizer, self.max_length, counts=counts)

        def finish(outputs: Sequence[Any]) -> csr_matrix:
            from scipy.sparse import csr_matrix

            ends = np.cumsum([0, *(len(ids) for ids, _ in outputs)])
            ids, weights = (np.concatenate([part.numpy() for part in side]) for side in zip(*outputs, strict=True))
            return csr_matrix((weights, ids, ends), shape=(len(outputs), self.size))

        forward = SparseStates(self.model, self.declared.sparse or "max", self.declared.logs)
        return Prepared(forward, examples, counts, finish)

    predict = vectors

    def tokens(self, row: csr_matrix, most: int | None = None) -> list[tuple[str, float]]:
        """The tokens of an embedding, [1, vocab], with their weights, the largest first."""
        order = np.argsort(-row.data, kind="stable")[:most]
        return [(str(self.tokenizer.id_to_token(int(row.indices[one]))), float(row.data[one])) for one in order]


def sparse_encoder_of(model: Model, name: str | Path | Model, max_length: int | None = None) -> SparseEncoder:
    """The sparse encoder of a model that was loaded from `name`, with the settings of its folder."""
    declared = None if isinstance(name, Model) else model.sentence
    return SparseEncoder(model, declared, max_length)
