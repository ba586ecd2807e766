"""Texts to numbers, as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from ..core.errors import InputError
from ..inference.texts import as_texts
from ..tasks.regression.task import Regression
from .fine_tuned import check_lengths, check_targets
from .whole_text import WholeText


class TextRegressor(RegressorMixin, WholeText):
    """Predicts a number for each text, or pair of texts, with a fine-tuned encoder. `score` is R squared.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        long: "cut" truncates longer texts; "windows" reads them in overlapping windows.
        stride: Overlap of neighboring windows in tokens; None for a third of `max_length`, at most 128.
        pool: How the logits of the windows are pooled: "mean" or "max".
        max_windows: Maximum number of windows of one text in training.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        freeze_encoder: Train only the pooler and the head.
        adapter: "lora" to train a LoRA adapter and the head, or a dict of its settings (rank, alpha, targets,
            dropout). It needs a model by name; `save` writes an adapter folder.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        model_: The trained model.
        task_: Its task: labels, settings of predictions.

    Example:
        >>> regressor = TextRegressor("minilm").fit([("A man sleeps.", "A man is asleep.")], [4.8])
    """

    _ability = "numbers"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on texts and numbers. Raises InputError for targets that are not finite numbers."""
        self._check()
        texts = as_texts(X, self.columns)
        check_targets(y, "number")
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """R², as scikit-learn defines it. Raises InputError for a missing number."""
        check_targets(y, "number")
        return float(super().score(X, np.asarray(y, dtype=np.float64), sample_weight))
