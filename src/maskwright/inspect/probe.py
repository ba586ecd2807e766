"""Layer-wise linear probing with a control task (Hewitt and Liang 2019).

The probe of a layer predicts the label of a word or text from its embedding. In the control task every word type has a
random label, so its accuracy measures memorization. Selectivity is accuracy minus control accuracy (section 2.3).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.config import check
from ..core.errors import InputError
from ..core.progress import track
from ..core.randomness import generator
from ..inference.embed import TextEncoder
from ..inference.layer_features import feature_blocks
from ..inference.layers import check_pooling
from ..inference.ready import room_of
from ..models.model import Model, tokenizer_of
from ..tasks.classification import Classification
from ..tasks.split import hold_out
from ..tasks.tagging.examples import window_sentences
from ..text.readers.tables import Row
from ..text.readers.tagged import Sentence, is_tagged, read_tagged
from ..text.words import split_words

# -- Labeled words or texts for probing, with their embeddings in every layer ----------------------------------------


Labeled = Sentence | Row
TEST_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class LabeledVectors:
    """Embeddings of labeled words or texts.

    unit: "words" or "texts"; vectors: embedding layer first, float32 [layers + 1, examples, hidden]; types: the word,
    or the first word of a text.
    """

    unit: str
    vectors: np.ndarray
    labels: Sequence[str]
    types: Sequence[str]


def read_labeled(
    path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> Sequence[Labeled]:
    """Read tagged sentences (CoNLL columns, or JSON lines with tokens and tags) or labeled texts.

    Raises RowErrors and InputError as the readers do.
    """
    if is_tagged(path, columns):
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows).rows
    return Classification.read(path, columns=columns, skip_bad_rows=skip_bad_rows).rows


def split_rows(rows: Sequence[Labeled], seed: int = 0) -> tuple[list[Labeled], list[Labeled]]:
    """Split rows into three quarters for training and one for evaluation (`tasks.split`), both in order."""
    if len(rows) < 2:
        raise InputError("A probe requires at least two rows, one for training and one for evaluation.")
    labels = [set(row.label or ()) if isinstance(row, Sentence) else (str(row.label),) for row in rows]
    held = hold_out(labels, [(row.text, row.text_pair) for row in rows], TEST_SHARE, seed)
    return [row for index, row in enumerate(rows) if index not in held], [rows[index] for index in sorted(held)]


def embed_labeled(
    model: Model, rows: Sequence[Labeled], pooling: str, max_length: int | None, most: int
) -> LabeledVectors:
    """Embed the first rows, up to about `most` words or texts.

    Raises InputError for no rows, rows without a label, or rows of both kinds.
    """
    sentences = [row for row in rows if isinstance(row, Sentence)]
    texts = [row for row in rows if isinstance(row, Row)]
    if not rows or (sentences and texts):
        raise InputError("A probe requires at least one row, and either tagged sentences or labeled texts.")
    for row in rows:
        if row.label is None:
            raise InputError(f"{row.file}, line {row.line:,}: the row has no label.")
    return _words(model, sentences, max_length, most) if sentences else _texts(model, texts[:most], pooling, max_length)


def _words(model: Model, rows: Sequence[Sentence], max_length: int | None, most: int) -> LabeledVectors:
    words_before = np.cumsum([0, *(len(row) for row in rows)])
    rows = rows[: max(int(np.searchsorted(words_before, most)), 1)]
    examples = window_sentences(rows, tokenizer_of(model), room_of(model, max_length))
    vectors = np.concatenate([block.numpy() for block in feature_blocks(model, [examples])], axis=1)
    labels = [tag for row in rows for tag in row.tags or ()]
    return LabeledVectors("words", vectors, labels, [word for row in rows for word in row.words])


def _texts(model: Model, rows: Sequence[Row], pooling: str, max_length: int | None) -> LabeledVectors:
    layers = list(range(model.config.num_hidden_layers + 1))
    encoder = TextEncoder(model, layers, pooling, max_length=max_length)
    texts = [row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows]
    vectors = encoder.vectors(texts).reshape(len(rows), len(layers), -1).transpose(1, 0, 2)  # [layers, texts, hidden]
    return LabeledVectors("texts", vectors, [str(row.label) for row in rows], [_first_word(row.text) for row in rows])


def _first_word(text: str) -> str:
    start, end = next(iter(split_words(text)), (0, 0))
    return text[start:end]


MAX_EXAMPLES = 10_000  # default maximum of words or texts per split
PENALTY = 10.0
MAX_STEPS = 1_000  # optimizer iterations of a probe


@dataclass(frozen=True)
class LayerProbe:
    """Probe of one layer; layer 0 is the embeddings. accuracy, control: dev accuracy on labels and control task."""

    layer: int
    accuracy: float
    control: float

    @property
    def selectivity(self) -> float:
        """Accuracy minus control accuracy."""
        return self.accuracy - self.control

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return {**vars(self), "selectivity": self.selectivity}


@dataclass(frozen=True)
class ProbeResult:
    """Result of layer-wise probing.

    unit: "words" or "texts"; labels: training labels; layers: one probe per layer; majority, control_majority: accuracy
    of the majority-class baseline; known: fraction of dev examples whose type occurs in training; num_train, num_dev:
    words or texts; num_unfinished: probes that did not converge.
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
        """Layer with the highest accuracy."""
        return max(self.layers, key=lambda one: one.accuracy)

    @property
    def most_selective(self) -> LayerProbe:
        """Layer with the highest selectivity."""
        return max(self.layers, key=lambda one: one.selectivity)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; layers as a list of {"layer", "accuracy", "control", "selectivity"}."""
        return {
            **vars(self),
            "layers": [one.to_json() for one in self.layers],
            "best": self.best.layer,
            "most_selective": self.most_selective.layer,
        }


def probe(
    model: Model,
    rows: Sequence[Labeled],
    dev: Sequence[Labeled] | None = None,
    *,
    pooling: str = "mean",
    max_length: int | None = None,
    most: int = MAX_EXAMPLES,
    penalty: float = PENALTY,
    seed: int = 0,
) -> ProbeResult:
    """Probe every layer for the labels of tagged sentences or texts, as returned by `read_labeled`.

    dev: evaluation rows, None for a random quarter of `rows`; pooling: text embedding as in `embed` (words use their
    first subword token); max_length: maximum tokens; most: maximum words or texts per split; penalty: L2 penalty, 1 / C
    of scikit-learn; seed: of the split and the control labels. Raises InputError for missing labels, fewer than two
    labels, or dev examples of another kind or without common labels; ConfigError for settings out of range.
    """
    check_pooling(pooling)
    check(most >= 1, f"most is {most}; it must be at least 1.")
    train, held = split_rows(rows, seed) if dev is None else (rows, dev)
    parts = [embed_labeled(model, part, pooling, max_length, most) for part in (train, held)]
    return probe_vectors(*parts, penalty=penalty, seed=seed)


def probe_vectors(
    train: LabeledVectors, dev: LabeledVectors, *, penalty: float = PENALTY, seed: int = 0
) -> ProbeResult:
    """Probe embeddings."""
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
    return ProbeResult(
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


def labels_of(train: LabeledVectors, dev: LabeledVectors) -> tuple[str, ...]:
    """Return the sorted training labels. Raises InputError if a probe cannot be scored on `dev`."""
    if train.unit != dev.unit:
        raise InputError(
            f"The training examples have labels of {train.unit}, the dev examples of {dev.unit}: use one kind for both."
        )
    labels = tuple(sorted(set(train.labels)))
    if len(labels) < 2:
        raise InputError(
            f"All training {train.unit} have the label '{labels[0]}': a probe requires at least two labels."
        )
    if not set(labels) & set(dev.labels):
        raise InputError(
            f"No label of the dev {dev.unit}, such as '{dev.labels[0]}', is one of the training {train.unit}, such as "
            f"'{labels[0]}': use the same labels in both."
        )
    return labels


def control_labels(types: Sequence[str], labels: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Sample a label for each type with the frequencies of `labels`; it depends only on the type and the seed."""
    counts = sorted(Counter(labels).items())
    edges = np.cumsum([count for _, count in counts]) / len(labels)
    draws = {one: generator(seed, f"control label of {one}").random() for one in set(types)}
    places = {one: min(int(np.searchsorted(edges, draw, side="right")), len(counts) - 1) for one, draw in draws.items()}
    return {one: counts[place][0] for one, place in places.items()}


def majority(train: Sequence[str], dev: Sequence[str]) -> float:
    """Return the accuracy on `dev` of the majority label of `train`; ties use the first by name."""
    counts = Counter(train)
    most_common = min(counts, key=lambda label: (-counts[label], label))
    return sum(label == most_common for label in dev) / len(dev)


def fit_and_score(
    train: np.ndarray, labels: Sequence[str], dev: np.ndarray, dev_labels: Sequence[str], penalty: float = PENALTY
) -> tuple[float, bool]:
    """Return the dev accuracy of logistic regression, and whether it converged.

    train, dev: float [examples, hidden], standardized with the training statistics.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) == 1:
        return majority(labels, dev_labels), True
    scaler = StandardScaler().fit(train)
    classifier = LogisticRegression(C=1 / penalty, max_iter=MAX_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported in the return value
        classifier.fit(scaler.transform(train), labels)
    found = classifier.predict(scaler.transform(dev))
    return float(np.mean(found == np.asarray(dev_labels))), bool(np.max(classifier.n_iter_) < MAX_STEPS)
