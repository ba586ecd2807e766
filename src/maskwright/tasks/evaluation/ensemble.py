"""Model ensembles: averages probabilities or scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError

_SUM_TOLERANCE = 1e-3  # of float16 probabilities over many labels


def mean_scores(members: Sequence[ArrayLike], weights: Sequence[float] | None = None) -> np.ndarray:
    """Weighted mean over models: float64, with the shape of each member.

    members: arrays of the same shape, [rows] or [rows, labels], in the same row order. weights: one non-negative number
    per model, normalized (default: equal). Raises InputError if there are no members, shapes differ, values are not
    finite, or weights are invalid.
    """
    if len(members) == 0:
        raise InputError("An ensemble needs at least one model's predictions.")
    arrays = [np.asarray(member, dtype=np.float64) for member in members]
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise InputError(
                f"The predictions of model {place} have the shape {array.shape} and those of model 0 "
                f"{arrays[0].shape}: all models must predict the same rows with the same labels."
            )
        if not np.isfinite(array).all():
            raise InputError(f"The predictions of model {place} contain a number that is not finite.")
    return np.tensordot(_shares(weights, len(arrays)), np.stack(arrays), axes=1)


def mean_probabilities(
    members: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, multi_label: bool = False
) -> np.ndarray:
    """Weighted mean of probabilities: float64 [rows, labels].

    members: arrays [rows, labels] of probabilities, not logits; rows sum to 1 unless multi_label. weights: see
    `mean_scores`. Raises InputError like `mean_scores`, and for values that are not probabilities.
    """
    mean = mean_scores(members, weights)
    for place, member in enumerate(members):
        array = np.asarray(member, dtype=np.float64)
        if array.ndim != 2:
            raise InputError(f"The predictions of model {place} have {array.ndim} dimensions; expected [rows, labels].")
        is_share = array.size == 0 or (array.min() >= 0 and array.max() <= 1)
        if not is_share or not (multi_label or np.allclose(array.sum(axis=1), 1, atol=_SUM_TOLERANCE)):
            raise InputError(
                f"The predictions of model {place} are not probabilities; expected numbers from 0 to 1"
                f"{'' if multi_label else ', in rows that sum to 1'}."
            )
    return mean if multi_label else mean / mean.sum(axis=1, keepdims=True)


def _shares(weights: Sequence[float] | None, count: int) -> np.ndarray:
    shares = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (count,):
        raise InputError(f"{count} ensemble weights are needed, one per model, not {shares.size}.")
    if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise InputError("Ensemble weights must be finite, not negative, and not all 0.")
    return shares / shares.sum()
