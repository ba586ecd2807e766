"""Anomaly detection with the interface of a scikit-learn outlier detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..core.config import check
from ..core.errors import InputError
from ..hub.published import ENGLISH
from ..inference.prepared import as_texts
from ..tasks.anomaly import QUANTILE, Anomaly
from ..tasks.evaluation.rare import Threshold
from ..tasks.windows import MAX_WINDOWS
from ..text.readers.inputs import Column
from ..train.schedules import Schedule
from .fine_tuned import ModelSource, own_facts
from .whole_text import WholeText


class AnomalyDetector(OutlierMixin, WholeText):
    """Detects anomalous texts by the reconstruction error of an autoencoder on frozen embeddings.

    `fit` takes only normal texts and ignores `y`. As in scikit-learn, `score_samples` is higher for normal texts (the
    negative error), `decision_function` is below 0 for outliers, and `predict` returns 1 for normal texts and -1 for
    others.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs.
        lr: Peak learning rate.
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        long: "cut" truncates longer texts; "windows" reads them in overlapping windows.
        stride: Overlap of neighboring windows in tokens; None for a third of `max_length`, at most 128.
        pool: Error of a text in windows: the "mean" or "max" of its windows.
        max_windows: Maximum number of windows of one text in training.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        contamination: Fraction of the texts of `fit` above the threshold.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        offset_: Threshold of `score_samples`.
        model_: The trained model.
        task_: Its task: labels, settings of predictions.

    Example:
        >>> detector = AnomalyDetector("minilm").fit(normal_texts)
        >>> detector.predict(texts)  # 1 normal, -1 not
    """

    _ability = "detect-anomalies"
    task_: Anomaly

    def __init__(
        self,
        model: ModelSource = ENGLISH,
        *,
        epochs: int = 30,
        lr: float = 1e-3,
        learning_rate: float | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
        long: str = "cut",
        stride: int | None = None,
        pool: str = "mean",
        max_windows: int = MAX_WINDOWS,
        columns: Sequence[Column] | None = None,
        contamination: float = 1 - QUANTILE,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        schedule: Schedule = "linear",
        accumulation: int = 1,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        super().__init__(
            model,
            epochs=epochs,
            lr=lr,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_length=max_length,
            long=long,
            stride=stride,
            pool=pool,
            max_windows=max_windows,
            columns=columns,
            warmup=warmup,
            weight_decay=weight_decay,
            schedule=schedule,
            accumulation=accumulation,
            random_state=random_state,
            device=device,
            precision=precision,
        )
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Learn from normal texts. Raises InputError for none."""
        self._check()
        part = self.contamination
        fits = isinstance(part, float | np.floating) and 0 < part <= 0.5
        check(fits, f"contamination is {part!r}; it must be above 0 and at most 0.5.")
        texts = as_texts(X, self.columns)
        if not texts:
            raise InputError("X is empty: at least one text is needed.")
        self._fit(texts, Anomaly(quantile=float(1 - part)), [0] * len(texts))
        errors = -self.score_samples(texts)
        self.task_.threshold = Threshold(float(np.quantile(errors, 1 - part)))
        self.offset_ = -self.task_.threshold.value
        return self

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """The negative reconstruction error of each text, higher for normal ones: float64 [texts]."""
        scores: np.ndarray = -self._logits(X).squeeze(-1).double().numpy()
        return scores

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """`score_samples` minus offset_, below 0 for outliers: float64 [texts]."""
        check_is_fitted(self, "offset_")
        decided: np.ndarray = self.score_samples(X) - self.offset_
        return decided

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """1 for normal texts, -1 for outliers: int [texts]."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _own_facts(self) -> dict[str, Any]:
        return {"offset": self.offset_}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        offset = own_facts(facts).get("offset")
        threshold = self.task_.threshold
        if isinstance(offset, float):
            self.offset_ = offset
        elif threshold is not None:  # of `maskwright finetune`
            self.offset_ = -threshold.value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
