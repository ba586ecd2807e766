"""Masked words, in the manner of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..api import open_mask_filler
from ..hub.published import ENGLISH
from ..inference.fill_mask import FilledText, MaskFiller
from ..inference.ready import place
from ..inference.texts import single_texts
from ..models.model import Model
from .fine_tuned import ModelSource, check_lengths, check_targets


class FillMask(BaseEstimator):
    """Predicts masked tokens with a pre-trained model. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        top_k: Number of candidates that `fill` returns for each mask.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> FillMask("runs/mini/model").fill("the [MASK] of the river")[0].masks[0].candidates
    """

    def __init__(
        self, model: ModelSource = ENGLISH, *, top_k: int = 5, device: str = "auto", precision: str = "auto"
    ) -> None:
        self.model = model
        self.top_k = top_k
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            self.filler_ = MaskFiller(place(deepcopy(self.model), self.device, self.precision))
        else:
            self.filler_ = open_mask_filler(self.model, device=self.device, precision=self.precision)
        return self

    def fill(self, texts: Any, targets: Sequence[str] | None = None) -> list[FilledText]:
        """The masks of each text with their `top_k` candidates and probabilities; targets: of these words only."""
        top_k = None if targets else self.top_k
        return self._filler().fill(single_texts(texts, "Texts with masks"), top_k, targets)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """Each text with the most probable token in place of every mask."""
        return [found.filled for found in self._filler().fill(single_texts(X, "Texts with masks"), top_k=1)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:  # noqa: N803
        """The probability of every token of the vocabulary: float64 [masks, vocab] for each text, rows sum to 1."""
        return [self._filler().probabilities(text) for text in single_texts(X, "Texts with masks")]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Share of texts, with one mask each, whose most probable token is the word in y."""
        filler = self._filler()
        found = filler.fill(single_texts(X, "Texts with masks"), top_k=1)
        check_targets(y, "word")
        words = [filler.token_of(str(word)) for word in y]
        check_lengths(found, words)
        return float(
            np.mean(
                [
                    len(text.masks) == 1 and text.masks[0].candidates[0].token == word
                    for text, word in zip(found, words, strict=True)
                ]
            )
        )

    def _filler(self) -> MaskFiller:
        if not hasattr(self, "filler_"):
            self.fit()
        return self.filler_

    def __sklearn_is_fitted__(self) -> bool:
        return True
