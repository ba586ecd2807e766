"""Masked words, in the manner of a scikit-learn estimator."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..api import open_mask_filler
from ..core.errors import InputError
from ..inference.fill_mask import FilledText, MaskFiller
from ..inference.ready import place
from ..inference.texts import as_texts
from ..models.model import Model
from .fine_tuned import ModelSource, check_lengths


class FillMask(BaseEstimator):
    """Masked words, with a pre-trained model; nothing is trained, so every method works without `fit`.

    model: a model folder, a name of the hub, or a Model with a tokenizer; top_k: how many candidates `fill` gives.
    """

    def __init__(self, model: ModelSource, *, top_k: int = 5, device: str = "auto", precision: str = "auto") -> None:
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

    def fill(self, texts: Any) -> list[FilledText]:
        """The masks of each text with their `top_k` candidates and probabilities."""
        return self._filler().fill(_plain_texts(texts), self.top_k)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """Each text with the most probable token in place of every mask."""
        return [found.filled for found in self._filler().fill(_plain_texts(X), top_k=1)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:  # noqa: N803
        """The probability of every token of the vocabulary: float64 [masks, vocab] for each text, rows sum to 1."""
        return [self._filler().probabilities(text) for text in _plain_texts(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Share of texts, with one mask each, whose most probable token is the word in y."""
        filler = self._filler()
        found = filler.fill(_plain_texts(X), top_k=1)
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


def _plain_texts(texts: Any) -> list[str]:
    """Texts that are no pairs; one text alone is a list of one."""
    found = [texts] if isinstance(texts, str) else as_texts(texts)
    if any(not isinstance(text, str) for text in found):
        raise InputError("Masks are filled in single texts, not in pairs.")
    return [str(text) for text in found]
