"""Weight averaging: the mean of several models' weights, at the inference cost of one.

Wortsman et al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy without increasing
inference time", section 2 (the uniform soup). It works for runs that start from the same pre-trained weights, which
end in one basin of the loss; models trained from scratch do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from .checkpoint import read_weights


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each tensor over `folders`, each with the best weights of one seed.

    Summed in float64, one folder at a time, so at most two models are in memory. Raises CorruptFileError when a file
    changed on disk.
    """
    first = read_weights(folders[0])
    sums = {name: tensor.double() for name, tensor in first.items()}
    for folder in folders[1:]:
        for name, tensor in read_weights(folder).items():
            sums[name] += tensor
    return {name: (total / len(folders)).to(first[name].dtype) for name, total in sums.items()}
