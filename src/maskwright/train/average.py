"""The mean of several models' weights: one model that costs what one costs and errs less than its parts.

Wortsman et al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy without increasing
inference time", section 2 (the uniform soup). It holds for runs that start from the same pre-trained weights: they end
in one basin of the loss. Networks from scratch do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from .checkpoint import read_weights


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each tensor over `folders`, each of which holds one seed's best weights of the same network.

    Summed in float64, one folder after the other, so that two models are in memory whatever their number. Raises
    CorruptFileError when a file changed on disk.
    """
    first = read_weights(folders[0])
    sums = {name: tensor.double() for name, tensor in first.items()}
    for folder in folders[1:]:
        for name, tensor in read_weights(folder).items():
            sums[name] += tensor
    return {name: (total / len(folders)).to(first[name].dtype) for name, total in sums.items()}
