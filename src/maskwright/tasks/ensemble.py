"""Several models of one task as one: the mean of their probabilities, or of their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError

_SUM_TOLERANCE = 1e-3  # of float16 probabilities over many labels


def mean_scores(members: Sequence[ArrayLike], weights: Sequence[float] | None = None) -> np.ndarray:
    """The mean over models: float64, of the shape of each member.

    members: k arrays of one shape, [rows] or [rows, labels], the rows in one order. weights: one non-negative number
    for each, in any unit; None counts all the same. Raises InputError when there is no member, shapes differ, a value
    is not finite, or the weights do not fit.
    """
    if len(members) == 0:
        raise InputError("An ensemble needs at least one model's predictions.")
    arrays = [np.asarray(member, dtype=np.float64) for member in members]
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise InputError(
                f"The predictions of model {place} have the shape {array.shape} and those of model 0 "
                f"{arrays[0].shape}: all must answer the same rows with the same labels."
            )
        if not np.isfinite(array).all():
            raise InputError(f"The predictions of model {place} hold a number that is not finite.")
    return np.tensordot(_shares(weights, len(arrays)), np.stack(arrays), axes=1)


def mean_probabilities(
    members: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, multi_label: bool = False
) -> np.ndarray:
    """The mean of probabilities: float64 [rows, labels].

    members: k arrays [rows, labels] of probabilities, not logits; unless multi_label every row sums to 1, and so do the
    rows of the result. weights: as in `mean_scores`. Raises InputError as there, and for what is no probability.
    """
    mean = mean_scores(members, weights)
    for place, member in enumerate(members):
        array = np.asarray(member, dtype=np.float64)
        if array.ndim != 2:
            raise InputError(
                f"The predictions of model {place} have {array.ndim} dimensions: [rows, labels] is needed."
            )
        is_share = array.size == 0 or (array.min() >= 0 and array.max() <= 1)
        if not is_share or not (multi_label or np.allclose(array.sum(axis=1), 1, atol=_SUM_TOLERANCE)):
            raise InputError(
                f"The predictions of model {place} are no probabilities: numbers from 0 to 1 are needed"
                f"{'' if multi_label else ', in rows that sum to 1'}."
            )
    return mean if multi_label else mean / mean.sum(axis=1, keepdims=True)


def _shares(weights: Sequence[float] | None, count: int) -> np.ndarray:
    shares = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (count,):
        raise InputError(f"{count} models need as many weights, not {shares.size}.")
    if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise InputError("Weights of an ensemble must be finite, not negative, and not all 0.")
    return shares / shares.sum()
