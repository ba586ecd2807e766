"""A linear probe: logistic regression on frozen features of a model in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...core.randomness import generator
from ...data.batch import Batch
from ...models.model import Model
from ...tasks.classification.task import Classification
from ...tasks.rows.examples import map_batches
from ...text.formats.files import file_format
from ...text.readers.tables import read_table
from ...text.tokenizers.tokenizer import Tokenizer

MAX_ROWS = 2000
TEST_SHARE = 0.25


def is_labeled(source: str) -> bool:
    """Whether an --eval source is a labeled table (.csv, .tsv) rather than text."""
    return source != "-" and Path(source).is_file() and file_format(source, default="txt") in ("csv", "tsv")


def linear_probe(
    source: str, tokenizer: Tokenizer, max_length: int, seed: int, device: torch.device
) -> Callable[[Model], dict[str, float]]:
    """Returns a function that scores a model: `probe_accuracy` of logistic regression on mean-pooled hidden states.

    It uses at most 2,000 rows of `source`, sampled with `seed`; a quarter of them are test rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = read_table(source).rows
    order = generator(seed, "probe").permutation(len(rows))[:MAX_ROWS].tolist()
    chosen = [rows[index] for index in order]
    task = Classification.from_rows(chosen, multi_label=False)
    examples = task.examples(chosen, tokenizer, max_length, file=source)
    labels = np.array([task.target(row.label) for row in chosen])
    cut = len(chosen) - max(round(len(chosen) * TEST_SHARE), 1)

    def score(model: Model) -> dict[str, float]:
        """Fit the probe on the features of `model` and score it on the test rows."""

        def mean_vectors(batch: Batch) -> Tensor:
            """Mean-pooled hidden states: float32 [sequences, hidden]."""
            hidden = model.encode(batch).hidden.float()  # [tokens, hidden]
            owner = torch.repeat_interleave(torch.tensor(batch.lengths, device=hidden.device))
            sums = hidden.new_zeros(len(batch), hidden.shape[1]).index_add_(0, owner, hidden)
            return sums / torch.bincount(owner, minlength=len(batch)).unsqueeze(1)  # [sequences, hidden]

        features = map_batches(examples, mean_vectors, device=device).numpy()
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.1))
        probe.fit(features[:cut], labels[:cut])
        return {"probe_accuracy": float(probe.score(features[cut:], labels[cut:]))}

    return score
