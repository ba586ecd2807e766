"""Texts to numbers, as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from ..core.errors import InputError
from ..inference.texts import as_texts
from ..tasks.regression.task import Regression
from .fine_tuned import check_lengths
from .whole_text import WholeText


class TextRegressor(RegressorMixin, WholeText):
    """A fine-tuned encoder that gives each text, or pair of texts, a number.

    Parameters as those of WholeText. `score` is R squared, as everywhere in scikit-learn. After fit: model_, task_.
    """

    _heads = ("regression",)

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on texts and numbers. Raises InputError for targets that are not finite numbers."""
        self._check()
        texts = as_texts(X, self.columns)
        try:
            gold = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("y must hold numbers: for classes use TextClassifier.") from None
        check_lengths(texts, gold)
        if gold.ndim != 1 or not np.isfinite(gold).all():
            raise InputError("y must hold one finite number for each text.")
        self._fit(texts, Regression(), gold.tolist())
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """One number for each text: float64 [texts]."""
        numbers: np.ndarray = self._logits(X).squeeze(-1).double().numpy()
        return numbers
