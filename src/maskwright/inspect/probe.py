"""What each layer knows: a linear classifier on frozen vectors, beside a control task that says how much it learns by
heart (Hewitt and Liang 2019).

The probe of a layer guesses the label of a word or a text from its vector there. In the control task every type, a word
as it is spelt, gets a label of its own at random: what a probe scores on it is not knowledge of the layer but memory of
types. Accuracy less that is the selectivity (section 2.3 there).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.config import check
from ..core.errors import InputError
from ..core.progress import track
from ..core.randomness import generator
from ..inference.layers import check_pooling
from ..models.model import Model
from .probe_rows import Judged, Labelled, judged, split_rows

MOST = 10_000  # words or texts of a side, where nobody says otherwise
PENALTY = 10.0
MAX_STEPS = 1_000  # of a probe's optimiser


@dataclass(frozen=True)
class LayerProbe:
    """One layer, from 0 for the embeddings. accuracy, control: shares of the dev part that the probe gets right of the
    labels, and of the control task.
    """

    layer: int
    accuracy: float
    control: float

    @property
    def selectivity(self) -> float:
        """How much more the probe gets right of the labels than of random ones."""
        return self.accuracy - self.control

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "selectivity": self.selectivity}


@dataclass(frozen=True)
class Probed:
    """What the layers of a model know of some labels.

    unit: what has a label, "words" or "texts"; labels: those of the training part; layers: a probe for each;
    majority, control_majority: shares that the commonest training label gets right; known: share of the dev part whose
    type the training part has; num_train, num_dev: words or texts; num_unfinished: probes that were still improving
    when their steps ran out.
    """

    unit: str
    labels: tuple[str, ...]
    layers: tuple[LayerProbe, ...]
    majority: float
    control_majority: float
    known: float
    num_train: int
    num_dev: int
    num_unfinished: int = 0

    @property
    def best(self) -> LayerProbe:
        """The layer from which most is read."""
        return max(self.layers, key=lambda one: one.accuracy)

    @property
    def most_selective(self) -> LayerProbe:
        """The layer from which most is read beyond what is learnt by heart."""
        return max(self.layers, key=lambda one: one.selectivity)

    def to_json(self) -> dict[str, Any]:
        """Plain values; layers as a list of {"layer", "accuracy", "control", "selectivity"}."""
        return {
            **vars(self),
            "layers": [one.to_json() for one in self.layers],
            "best": self.best.layer,
            "most_selective": self.most_selective.layer,
        }


def probe(
    model: Model,
    rows: Sequence[Labelled],
    dev: Sequence[Labelled] | None = None,
    *,
    pooling: str = "mean",
    max_length: int | None = None,
    most: int = MOST,
    penalty: float = PENALTY,
    seed: int = 0,
) -> Probed:
    """Probe every layer for the labels of tagged sentences or of texts, as `read_labelled` gives them.

    dev: rows to score on, None for a quarter of `rows`, drawn by `seed`; pooling: what makes one vector of a text, as
    for `embed` (a word has that of its first piece); max_length: tokens that are read at once; most: words or texts of
    a side, the first ones; penalty: of the squared weights, 1 / C of scikit-learn; seed: of the control labels.
    Raises InputError for rows without labels, or of one label alone, and where the dev rows are of another kind or have
    none of the labels; ConfigError for settings out of range.
    """
    check_pooling(pooling)
    check(most >= 1, f"most is {most}; it must be at least 1.")
    train, held = split_rows(rows, seed) if dev is None else (rows, dev)
    parts = [judged(model, part, pooling, max_length, most) for part in (train, held)]
    return probe_vectors(*parts, penalty=penalty, seed=seed)


def probe_vectors(train: Judged, dev: Judged, *, penalty: float = PENALTY, seed: int = 0) -> Probed:
    """The same for vectors that are given."""
    check(penalty > 0, f"penalty is {penalty}; it must be above 0.")
    labels = labels_of(train, dev)
    drawn = control_labels([*train.types, *dev.types], train.labels, seed)
    tasks = [(train.labels, dev.labels), ([drawn[one] for one in train.types], [drawn[one] for one in dev.types])]
    layers, num_unfinished = [], 0
    with track("probes", len(train.vectors), "layers") as progress:
        for layer, (vectors, held) in enumerate(zip(train.vectors, dev.vectors, strict=True)):
            scores = [fit_and_score(vectors, own, held, wanted, penalty) for own, wanted in tasks]
            layers.append(LayerProbe(layer, scores[0][0], scores[1][0]))
            num_unfinished += sum(not is_finished for _, is_finished in scores)
            progress.update(layer + 1)
    known = set(train.types)
    return Probed(
        train.unit,
        labels,
        tuple(layers),
        majority=majority(*tasks[0]),
        control_majority=majority(*tasks[1]),
        known=sum(one in known for one in dev.types) / len(dev.types),
        num_train=len(train.labels),
        num_dev=len(dev.labels),
        num_unfinished=num_unfinished,
    )


def labels_of(train: Judged, dev: Judged) -> tuple[str, ...]:
    """The labels of the training part, sorted. Raises InputError where a probe of them cannot be scored on `dev`."""
    if train.unit != dev.unit:
        raise InputError(
            f"The training part has labels of {train.unit}, the dev part of {dev.unit}: both must be of one kind."
        )
    labels = tuple(sorted(set(train.labels)))
    if len(labels) < 2:
        raise InputError(f"All training {train.unit} have the label '{labels[0]}': a probe tells two or more apart.")
    if not set(labels) & set(dev.labels):
        raise InputError(
            f"No label of the dev {dev.unit}, such as '{dev.labels[0]}', is one of the training {train.unit}, such as "
            f"'{labels[0]}': the two parts must share their labels."
        )
    return labels


def control_labels(types: Sequence[str], labels: Sequence[str], seed: int = 0) -> dict[str, str]:
    """A label for each type, drawn once and as often as `labels` have it; it depends on the type and the seed alone."""
    counts = sorted(Counter(labels).items())
    edges = np.cumsum([count for _, count in counts]) / len(labels)
    draws = {one: generator(seed, f"control label of {one}").random() for one in set(types)}
    places = {one: min(int(np.searchsorted(edges, draw, side="right")), len(counts) - 1) for one, draw in draws.items()}
    return {one: counts[place][0] for one, place in places.items()}


def majority(train: Sequence[str], dev: Sequence[str]) -> float:
    """The share of `dev` that has the commonest label of `train`, the first by name where several are."""
    counts = Counter(train)
    commonest = min(counts, key=lambda label: (-counts[label], label))
    return sum(label == commonest for label in dev) / len(dev)


def fit_and_score(
    train: np.ndarray, labels: Sequence[str], dev: np.ndarray, dev_labels: Sequence[str], penalty: float = PENALTY
) -> tuple[float, bool]:
    """The accuracy on `dev` of logistic regression on `train`, and whether it was fitted to the end.

    train, dev: float [things, hidden], brought to mean 0 and deviation 1 of the training part.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) == 1:
        return majority(labels, dev_labels), True
    scaler = StandardScaler().fit(train)
    classifier = LogisticRegression(C=1 / penalty, max_iter=MAX_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is told by what is returned
        classifier.fit(scaler.transform(train), labels)
    found = classifier.predict(scaler.transform(dev))
    return float(np.mean(found == np.asarray(dev_labels))), bool(np.max(classifier.n_iter_) < MAX_STEPS)
