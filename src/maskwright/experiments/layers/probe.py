"""A probe on frozen features, with the interface of a tagging model.

`input_ids` are row indices of the features (words, not tokens), so the probe is trained and scored by the code that
fine-tunes a tagger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...data.batch import Batch
from ...inference.layer_features import Features
from ...inference.layers import NAMED_LAYERS, LayerChoice, choose_layers
from ...models.probes import TokenProbe
from ...nn.scalar_mix import ScalarMix
from ...tasks.tagging.examples import TaggedExamples
from ...train.finetuning.job import FinetuneJob, MemoryBestModelSaver

if TYPE_CHECKING:
    from ...models.model import Model
    from ...tasks.tagging.task import Tagging
    from .config import LayerLabConfig

MIX = "learned-mix"
NEEDS = 4  # minimum number of layers for the names with "-4"
SCALE_ROWS = 8192  # words per block when the scale of features is measured


@dataclass(frozen=True)
class Combination:
    """A row of the results. choice: its layers, None for the scalar mix of all layers."""

    name: str
    choice: LayerChoice | None

    def size(self, hidden_size: int) -> int:
        """Number of dimensions of a word embedding."""
        return hidden_size if self.choice is None else self.choice.size(hidden_size)


def combinations(num_layers: int, each_layer: bool = False) -> tuple[list[Combination], list[str]]:
    """The rows of an experiment, and the names that need more than `num_layers` layers.

    The named choices, the scalar mix, and with `each_layer` every other single layer.
    """
    names = [name for name in NAMED_LAYERS if num_layers >= NEEDS or not name.endswith("-4")]
    rows = [Combination(name, choose_layers(name, num_layers)) for name in names]
    rows.append(Combination(MIX, None))
    if each_layer:
        known = {row.choice.numbers for row in rows if row.choice is not None and len(row.choice.numbers) == 1}
        rows += [
            Combination(f"layer-{number}", LayerChoice((number,), "concat"))
            for number in range(num_layers + 1)
            if (number,) not in known
        ]
    return rows, [name for name in NAMED_LAYERS if name not in names]


class FeatureProbe(nn.Module):
    """A probe with its features. scale: factor of the features; see `feature_scale`."""

    def __init__(self, features: Features, choice: LayerChoice | None, probe: TokenProbe, scale: float = 1.0) -> None:
        super().__init__()
        self.features, self.choice, self.scale = features, choice, scale
        self.mix = ScalarMix(len(features.layers)) if choice is None else None
        self.head = probe

    def logits(self, batch: Batch) -> Tensor:
        """batch: sentences of words; `input_ids` are rows of the features. Returns float32 [words, labels]."""
        device = self.head.classifier.weight.device
        vectors = self.vectors(batch.input_ids.cpu(), device) * self.scale
        logits: Tensor = self.head(vectors, batch.lengths)
        return logits

    def vectors(self, rows: Tensor, device: torch.device | str = "cpu") -> Tensor:
        """rows: int64 [words]. Returns float32 [words, size]."""
        if self.mix is None:
            assert self.choice is not None
            return self.features.chosen(rows, self.choice).to(device)
        layers = self.features.of_layers(rows, range(len(self.features.layers)))
        mixed: Tensor = self.mix([layer.to(device) for layer in layers])
        return mixed

    def mix_facts(self) -> dict[str, Any] | None:
        """{"shares": weight of each layer from 0, "scale"} of a scalar mix; None for others."""
        if self.mix is None:
            return None
        return {"shares": self.mix.shares().tolist(), "scale": self.mix.scale.item()}


@torch.inference_mode()
def feature_scale(features: Features, choice: LayerChoice | None, num_train_words: int) -> float:
    """The factor that gives the features of the training words a mean square of 1.

    A sum of several layers is larger than one layer, which acts like a higher learning rate; the scale makes all rows
    comparable. The scalar mix is measured at its initialization, the mean of the layers.
    """
    reader = FeatureProbe(features, choice, TokenProbe(1, 2))
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for start in range(0, num_train_words, SCALE_ROWS):
        vectors = reader.vectors(torch.arange(start, min(start + SCALE_ROWS, num_train_words)))
        total += vectors.double().square().sum()
        count += vectors.numel()
    return float((total / count).rsqrt()) if total > 0 else 1.0


def word_examples(examples: TaggedExamples, first_row: int) -> TaggedExamples:
    """The same sentences with row indices of the features, starting at `first_row`."""
    own = [np.arange(start, end) for start, end in pairwise(examples.starts.tolist())]
    return replace(
        examples,
        input_ids=[(words + first_row).astype(np.int32) for words in own],
        places=[np.arange(len(words)) for words in own],
        words=own,
    )


class ProbeJob(FinetuneJob):
    """The training job of one probe. history: step, dev loss and dev score of each epoch."""

    def __init__(
        self,
        probe: FeatureProbe,
        task: Tagging,
        train: TaggedExamples,
        dev: TaggedExamples,
        config: LayerLabConfig,
        seed: int,
        device: torch.device,
    ) -> None:
        # Tagging and its job need only `logits` of a batch, a head and weights, which a probe has.
        model = cast("Model", probe)
        super().__init__(
            model, task, train, dev, MemoryBestModelSaver(), batch_size=config.batch_size, seed=seed, device=device
        )
        self.history: list[tuple[int, float, float]] = []

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the dev examples; store the weights if they are the best so far."""
        scores = super().evaluate(step)
        self.history.append((step, scores["loss"], scores[self.task.main_metric]))
        return scores


def make_probe(
    features: Features, combination: Combination, scale: float, config: LayerLabConfig, num_labels: int, seed: int
) -> FeatureProbe:
    """The probe of a row, initialized from `seed`."""
    probe = TokenProbe(
        combination.size(features.hidden_size),
        num_labels,
        config.probe,
        hidden_size=config.probe_size,
        num_layers=config.probe_layers,
        dropout_rate=config.dropout,
        crf=config.crf,
        seed=seed,
    )
    return FeatureProbe(features, combination.choice, probe, scale)
