"""Zero-shot classification: labels as words, no training examples.

An entailment classifier reads each text with each label as a hypothesis ("This text is about hardware."); the
probability of a label is the softmax over its entailment logits (Yin et al. 2019). Any other model compares embeddings:
the score of a label is the cosine similarity of text and hypothesis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..tasks.base import AnyRow
from ..tasks.examples import blocks, content_of
from ..tasks.sequence import ENTAILMENT, class_named
from ..text.tokenizers.encoding import TextCounts
from .cluster import unit_vectors
from .embed import TextEncoder
from .predict import BLOCK_CHARACTERS, BLOCK_ROWS, Predictor
from .prepared import Prepared, as_rows

TEMPLATE = "This text is about {}."


class ZeroShot(ABC):
    """Scores labels that were never trained: two or more different names; template: with {} for the label."""

    all_scores: str  # key of the scores of all labels in a prediction

    def __init__(self, labels: Sequence[str], template: str = TEMPLATE) -> None:
        names = [label.strip() for label in labels]
        if len(names) < 2 or not all(names) or len(set(names)) < len(names):
            raise InputError(f"--labels needs two or more different names; got {', '.join(names) or 'none'}.")
        if template.count("{}") != 1:
            raise InputError(f"--template needs one {{}}, the place of the label; got '{template}'.")
        self.labels = names
        self.hypotheses = [template.replace("{}", name) for name in names]
        self.counts = TextCounts()  # truncated and unknown tokens in all texts so far; subclasses share their model's

    @abstractmethod
    def prepare_scores(self, texts: Sequence[str]) -> Prepared[np.ndarray]:
        """Tokenize at least one text; the result has the score of each label: float32 [texts, labels]."""

    def scores(self, texts: Sequence[str], batch_tokens: int | None = None) -> np.ndarray:
        """The score of each label: float32 [texts, labels]."""
        if not texts:
            return np.zeros((0, len(self.labels)), dtype=np.float32)
        prepared = self.prepare_scores(texts)
        self.counts.include(prepared.counts)
        return prepared.run(batch_tokens)

    def stream(
        self, rows: Iterable[AnyRow], batch_tokens: int | None = None
    ) -> Iterator[tuple[AnyRow, dict[str, Any]]]:
        """Yield rows with their predictions, in order, a block of rows in memory. Raises InputError for a pair."""
        for block in blocks(as_rows(rows), BLOCK_ROWS, BLOCK_CHARACTERS):
            contents = [content_of(row) for row in block]
            texts = [text for text in contents if isinstance(text, str)]
            if len(texts) < len(block):
                raise InputError("--labels classifies single texts; the input has pairs of texts.")
            yield from zip(block, self.predict(texts, batch_tokens), strict=True)

    def predict(self, texts: Sequence[str], batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """One prediction per text: the best label, its score, and all scores, best first."""
        return self._ranked(self.scores(texts, batch_tokens))

    def prepare(self, texts: Sequence[str]) -> Prepared[list[dict[str, Any]]]:
        """Tokenize at least one text; the result is as of `predict`."""
        scores = self.prepare_scores(texts)
        return Prepared(
            scores.forward, scores.examples, scores.counts, lambda outputs: self._ranked(scores.finish(outputs))
        )

    def _ranked(self, scores: np.ndarray) -> list[dict[str, Any]]:
        found = []
        for row in scores:
            ranked = sorted(zip(self.labels, map(float, row), strict=True), key=lambda one: -one[1])
            found.append({"label": ranked[0][0], "score": ranked[0][1], self.all_scores: dict(ranked)})
        return found


class EmbeddingZeroShot(ZeroShot):
    """By cosine similarity of sentence embeddings."""

    all_scores = "similarities"

    def __init__(self, encoder: TextEncoder, labels: Sequence[str], template: str = TEMPLATE) -> None:
        super().__init__(labels, template)
        self.encoder, self.counts = encoder, encoder.counts

    def prepare_scores(self, texts: Sequence[str]) -> Prepared[np.ndarray]:
        """Cosine similarity of each text and hypothesis: float32 [texts, labels]."""
        prepared = self.encoder.prepare([*texts, *self.hypotheses])

        def finish(outputs: Sequence[Tensor]) -> np.ndarray:
            vectors = unit_vectors(prepared.finish(outputs))
            similarities: np.ndarray = vectors[: len(texts)] @ vectors[len(texts) :].T
            return similarities

        return replace(prepared, finish=finish)


class EntailmentZeroShot(ZeroShot):
    """By a classifier of pairs with the label `entailment`.

    multi_label: each label by itself, against contradiction; otherwise the probabilities of the labels sum to 1.
    """

    all_scores = "probabilities"

    def __init__(
        self, predictor: Predictor, labels: Sequence[str], template: str = TEMPLATE, multi_label: bool = False
    ) -> None:
        super().__init__(labels, template)
        self.predictor, self.counts = predictor, predictor.counts
        known = predictor.model.labels
        entailment = class_named(known, ENTAILMENT)
        if entailment is None:
            raise InputError(
                f"Labels without training need a model with the label 'entailment', or a sentence encoder; this one "
                f"predicts {', '.join(known)}."
            )
        self.index = entailment
        self.against: int | None = None
        if multi_label:
            self.against = 1 - entailment if len(known) == 2 else class_named(known, "contradiction")
            if self.against is None:
                raise InputError(
                    f"Several labels of a text need a model with the label 'contradiction'; this one predicts "
                    f"{', '.join(known)}."
                )

    def prepare_scores(self, texts: Sequence[str]) -> Prepared[np.ndarray]:
        """Softmax over the entailment logits of the labels, or each against contradiction: float32 [texts, labels]."""
        prepared = self.predictor.prepare_logits([(text, other) for text in texts for other in self.hypotheses])

        def finish(outputs: Sequence[Tensor]) -> np.ndarray:
            logits = prepared.finish(outputs).float()  # [texts * labels, classes]
            entailed = logits[:, self.index].reshape(-1, len(self.labels))
            if self.against is None:
                return torch.softmax(entailed, dim=-1).numpy()
            return (entailed - logits[:, self.against].reshape_as(entailed)).sigmoid().numpy()

        return Prepared(prepared.forward, prepared.examples, prepared.counts, finish)
