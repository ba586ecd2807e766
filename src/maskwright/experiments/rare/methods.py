"""The compared methods for class imbalance: each trains on the splits of one seed and predicts the test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.options import settings_of
from ...hub.folders import load_model
from ...inference.ready import compute_in
from ...models.model import Model, tokenizer_of
from ...tasks.anomaly.task import Anomaly
from ...tasks.classification.labels import balanced_weights
from ...tasks.classification.task import Classification
from ...tasks.evaluation.rare import RareClass, choose_threshold
from ...tasks.evaluation.rare_parts import RARE, REST, Parts
from ...tasks.evaluation.rare_scores import SeedPredictions
from ...tasks.evaluation.thresholds import row_key
from ...tasks.rows.examples import Examples
from ...tasks.rows.sequence import SequenceTask
from ...text.readers.tables import Row
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import fit
from .config import RareLabConfig

LABELS = [REST, RARE]


@dataclass(frozen=True)
class Method:
    """title: in the results; about: a short description; needs: the method whose scores it reuses."""

    title: str
    about: str
    needs: str | None = None


METHODS: dict[str, Method] = {
    "plain": Method("plain fine-tuning", "cross-entropy; rare above 0.5"),
    "class-weights": Method("class weights", "each class counts the same in the loss; rare above 0.5"),
    "focal": Method("focal loss", "(1 - p)^gamma before the cross-entropy; rare above 0.5"),
    "resampling": Method("resampling", "rare rows sampled as often as the others; rare above 0.5"),
    "threshold": Method("plain, threshold", "the plain model; threshold with the best F1 on dev", needs="plain"),
    "autoencoder": Method(
        "autoencoder", "reconstruction error on frozen features, trained on the rest; threshold from dev"
    ),
    "tfidf": Method("TF-IDF, logistic regression", "unigrams and bigrams, class weights; rare above 0.5"),
}


@dataclass(frozen=True)
class MethodPredictions:
    """Predictions of a method: scores and decisions for the test rows; dev_values: dev scores, float64 [rows]."""

    test: SeedPredictions
    dev_values: np.ndarray


class MethodRunner:
    """Runs the methods on the splits of one seed. finished: predictions of earlier methods of the same seed."""

    def __init__(self, config: RareLabConfig, parts: Parts, seed: int, finished: dict[str, MethodPredictions]) -> None:
        self.config, self.parts, self.seed, self.finished = config, parts, seed, finished

    def judge(self, method: str) -> MethodPredictions:
        """Run a method of METHODS."""
        return _RUN[method](self)

    def classify(self, **options: Any) -> MethodPredictions:
        """Fine-tune a classifier; the best epoch is the one with the best pr_auc on dev."""
        config = self.config
        task = Classification(LABELS, rare=RareClass(RARE), **options)
        model = self._model(task)
        train, dev, test = (self._examples(task, model, rows) for rows in self._rows())
        task.init_from_counts(model, train)
        fit(model, task, train, dev, epochs=config.epochs, lr=config.lr, **self._shared())
        values = [task.probabilities(task.logits(model, examples)).numpy()[:, 1] for examples in (dev, test)]
        return MethodPredictions(SeedPredictions(values[1], values[1] > 0.5), values[0])

    def reconstruct(self) -> MethodPredictions:
        """Train an autoencoder on the rest class; the threshold is chosen on dev."""
        task = Anomaly(REST, main_metric="pr_auc")
        model = self._model(task)
        rows = [task.learns_from(self.parts.train), self.parts.dev, self.parts.test]
        train, dev, test = (task.prepare(model, self._examples(task, model, part)) for part in rows)
        task.init_from_counts(model, train)
        usual = settings_of(FinetuneConfig)
        epochs, lr = (usual[name].default_of(task.name) for name in ("epochs", "lr"))
        fit(model, task, train, dev, epochs=epochs, lr=lr, **self._shared())
        task.tune_threshold(task.logits(model, dev), dev)
        values = [task.logits(model, examples).squeeze(-1).double().numpy() for examples in (dev, test)]
        assert task.threshold is not None
        return MethodPredictions(SeedPredictions(values[1], values[1] > task.threshold.value), values[0])

    def with_threshold(self, method: str) -> MethodPredictions:
        """The scores of another method with the threshold of the best F1 on dev."""
        other = self.finished[method]
        keys = [row_key(row.text, row.text_pair) for row in self.parts.dev]
        gold = np.array([row.label == RARE for row in self.parts.dev])
        threshold = choose_threshold(other.dev_values, gold, keys)
        return MethodPredictions(
            SeedPredictions(other.test.values, other.test.values > threshold.value), other.dev_values
        )

    def count_words(self) -> MethodPredictions:
        """TF-IDF of unigrams and bigrams, and logistic regression with balanced class weights."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        texts, gold = zip(*((_joined(row), row.label == RARE) for row in self.parts.train), strict=True)
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LogisticRegression(class_weight="balanced", max_iter=1000, random_state=self.seed),
        ).fit(texts, gold)
        values = [
            model.predict_proba([_joined(row) for row in rows])[:, 1] for rows in (self.parts.dev, self.parts.test)
        ]
        return MethodPredictions(SeedPredictions(values[1], values[1] > 0.5), values[0])

    def _shared(self) -> dict[str, Any]:
        return {"batch_size": self.config.batch_size, "seed": self.seed, "precision": self.config.precision}

    def _rows(self) -> tuple[list[Row], list[Row], list[Row]]:
        return self.parts.train, self.parts.dev, self.parts.test

    def _model(self, task: SequenceTask) -> Model:
        model, _ = load_model(
            self.config.model, task.head, labels=task.labels or None, problem_type=task.problem_type, seed=self.seed
        )
        compute_in(model, self.config.precision)
        return model.to(self.config.device)

    def _examples(self, task: SequenceTask, model: Model, rows: list[Row]) -> Examples:
        return task.examples(rows, tokenizer_of(model), self.config.max_length)


def _weighted(runner: MethodRunner) -> MethodPredictions:
    counts = [sum(row.label == label for row in runner.parts.train) for label in LABELS]
    return runner.classify(class_weights=balanced_weights(counts, len(runner.parts.train)))


_RUN: dict[str, Callable[[MethodRunner], MethodPredictions]] = {
    "plain": MethodRunner.classify,
    "class-weights": _weighted,
    "focal": lambda runner: runner.classify(focal=runner.config.focal),
    "resampling": lambda runner: runner.classify(resample="balanced"),
    "threshold": lambda runner: runner.with_threshold("plain"),
    "autoencoder": MethodRunner.reconstruct,
    "tfidf": MethodRunner.count_words,
}


def _joined(row: Row) -> str:
    return row.text if row.text_pair is None else f"{row.text} {row.text_pair}"
