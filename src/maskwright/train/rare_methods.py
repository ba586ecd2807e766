"""The ways to find a rare class that are compared, each from the parts of one seed to judged test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hub.folders import load_model
from ..inference.ready import compute_in
from ..models.model import Model
from ..tasks.anomaly import Anomaly
from ..tasks.class_labels import balanced_weights
from ..tasks.classification import Classification
from ..tasks.examples import Examples
from ..tasks.rare import RareClass, choose_threshold
from ..tasks.rare_parts import RARE, REST, Parts
from ..tasks.rare_scores import Judged
from ..tasks.sequence import SequenceTask
from ..tasks.thresholds import row_key
from ..text.tables import Row
from .finetune import fit
from .finetune_config import DEFAULTS
from .rare_lab_config import RareLabConfig

LABELS = [REST, RARE]


@dataclass(frozen=True)
class Method:
    """title: for people; about: what it does, in a few words; needs: the method whose judgements it takes over."""

    title: str
    about: str
    needs: str | None = None


METHODS: dict[str, Method] = {
    "plain": Method("plain fine-tuning", "cross-entropy; rare above 0.5"),
    "class-weights": Method("class weights", "each class counts the same in the loss; rare above 0.5"),
    "focal": Method("focal loss", "(1 - p)^gamma before the cross-entropy; rare above 0.5"),
    "resampling": Method("resampling", "rare rows drawn as often as the others; rare above 0.5"),
    "threshold": Method("plain, threshold", "the plain model; threshold with the best F1 on dev", needs="plain"),
    "autoencoder": Method("autoencoder", "error on frozen features, learnt from the rest alone; threshold from dev"),
    "tfidf": Method("TF-IDF, logistic regression", "words and pairs of words, class weights; rare above 0.5"),
}


@dataclass(frozen=True)
class Found:
    """What a method says: judged test rows, and its values of the dev rows, float64 [rows]."""

    test: Judged
    dev_values: np.ndarray


class Workshop:
    """The parts of one seed, and how to train on them. finished: what earlier methods of the same seed found."""

    def __init__(self, config: RareLabConfig, parts: Parts, seed: int, finished: dict[str, Found]) -> None:
        self.config, self.parts, self.seed, self.finished = config, parts, seed, finished

    def judge(self, method: str) -> Found:
        """Run a method of METHODS."""
        return _RUN[method](self)

    def classify(self, **options: Any) -> Found:
        """Fine-tune a classifier; the best epoch is the one with the best pr_auc on dev."""
        config = self.config
        task = Classification(LABELS, rare=RareClass(RARE), **options)
        model = self._model(task)
        train, dev, test = (self._examples(task, model, rows) for rows in self._rows())
        task.prime(model, train)
        fit(model, task, train, dev, epochs=config.epochs, lr=config.lr, **self._shared())
        values = [task.probabilities(task.logits(model, examples)).numpy()[:, 1] for examples in (dev, test)]
        return Found(Judged(values[1], values[1] > 0.5), values[0])

    def reconstruct(self) -> Found:
        """Train an autoencoder on the rest; the threshold is chosen on dev."""
        task = Anomaly(REST, main_metric="pr_auc")
        model = self._model(task)
        rows = [task.learns_from(self.parts.train), self.parts.dev, self.parts.test]
        train, dev, test = (task.prepare(model, self._examples(task, model, part)) for part in rows)
        task.prime(model, train)
        usual = DEFAULTS["anomaly"]
        fit(model, task, train, dev, epochs=usual["epochs"], lr=usual["lr"], **self._shared())
        task.settle(task.logits(model, dev), dev)
        values = [task.logits(model, examples).squeeze(-1).double().numpy() for examples in (dev, test)]
        assert task.threshold is not None
        return Found(Judged(values[1], values[1] > task.threshold.value), values[0])

    def with_threshold(self, method: str) -> Found:
        """The judgements of another method, decided by the threshold with the best F1 on dev."""
        other = self.finished[method]
        keys = [row_key(row.text, row.text_pair) for row in self.parts.dev]
        gold = np.array([row.label == RARE for row in self.parts.dev])
        threshold = choose_threshold(other.dev_values, gold, keys)
        return Found(Judged(other.test.values, other.test.values > threshold.value), other.dev_values)

    def count_words(self) -> Found:
        """TF-IDF of words and pairs of words, and a logistic regression whose classes weigh the same."""
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
        return Found(Judged(values[1], values[1] > 0.5), values[0])

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
        return task.examples(rows, model.tokenizer, self.config.max_length)


def _weighted(shop: Workshop) -> Found:
    counts = [sum(row.label == label for row in shop.parts.train) for label in LABELS]
    return shop.classify(class_weights=balanced_weights(counts, len(shop.parts.train)))


_RUN: dict[str, Callable[[Workshop], Found]] = {
    "plain": Workshop.classify,
    "class-weights": _weighted,
    "focal": lambda shop: shop.classify(focal=shop.config.focal),
    "resampling": lambda shop: shop.classify(resample="balanced"),
    "threshold": lambda shop: shop.with_threshold("plain"),
    "autoencoder": Workshop.reconstruct,
    "tfidf": Workshop.count_words,
}


def _joined(row: Row) -> str:
    return row.text if row.text_pair is None else f"{row.text} {row.text_pair}"
