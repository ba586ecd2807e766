"""Models that `fit` fine-tunes: classes, numbers, tags, anomalies, answers and choices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..inference.answer import Answer, Answerer
from ..inference.prepared import as_texts
from ..tasks.anomaly import QUANTILE, Anomaly
from ..tasks.choice import Choice
from ..tasks.classification import Classification, balanced_weights
from ..tasks.evaluation.rare import Threshold
from ..tasks.qa.task import QuestionAnswering, score_answer
from ..tasks.regression import Regression
from ..tasks.tagging.task import Tagging
from ..text.readers.choices import ChoiceRow, choices_of
from ..text.readers.inputs import Column, column_names, is_frame, is_table, texts_of_table
from ..text.readers.squad import Question, ReferenceAnswer, find_answer
from ..text.words import Segment, Sentence, split_words
from .base import AdapterSettings, FineTuned, WholeText, check_lengths, check_targets, is_missing, own_facts


@dataclass(eq=False, repr=False)
class TextClassifier(ClassifierMixin, WholeText):
    """Classifies texts, or pairs of texts, with a fine-tuned encoder.

    `y` has one class per text; for multi-label classification a list, tuple or set of labels per text, or a 0/1 matrix
    [texts, labels].

    Args:
        class_weight: None, "balanced" (inverse class frequency), or a dict from class to weight.
        focal: Gamma of the focal loss; None for cross-entropy.
        resample: Sample rows of rare classes more often: "balanced", "sqrt", or None.

    Attributes:
        classes_: Array [classes], in the order of `predict_proba`; of a 0/1 matrix the numbers of its columns.

    Example:
        >>> classifier = TextClassifier("minilm", epochs=3).fit(texts, labels)
        >>> classifier.predict(["the invoice lists two seats too many"])
        array(['Billing'], dtype='<U8')
    """

    _: KW_ONLY
    class_weight: str | Mapping[Any, float] | None = None
    focal: float | None = None
    resample: str | None = None

    ability: ClassVar[str] = "classes"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and their classes. Raises InputError for what cannot be learned from."""
        self._check()
        texts, lists = as_texts(X, self.columns), _label_lists(y)
        gold = _as_array(y) if lists is None else _indicators(lists, _names_of(lists))
        check_lengths(texts, gold)
        is_multi = gold.ndim == 2
        if is_multi:
            check_targets(gold.ravel(), "0 or 1")
            if type_of_target(gold) != "multilabel-indicator":
                raise InputError(
                    "A matrix y must hold 0 and 1, a column for each label; otherwise pass a list of labels per text."
                )
            self.classes_ = np.arange(gold.shape[1]) if lists is None else np.array(_names_of(lists))
            targets = gold.astype(float)
            counts = gold.sum(axis=0)
        else:
            check_targets(gold)
            _check_types(gold.tolist())
            self.classes_, targets = np.unique(gold, return_inverse=True)
            counts = np.bincount(targets)
            if type_of_target(gold) == "continuous":
                raise InputError("y holds fractions: for numbers use TextRegressor.")
            if len(self.classes_) < 2:
                raise InputError(f"y holds only the class {self.classes_[0]!r}: a classifier needs at least two.")
        weights = self._weights(counts, len(texts), is_multi)
        names = [str(name) for name in self.classes_.tolist()]
        task = Classification(names, is_multi, weights, focal=self.focal, resample=self.resample)
        self._fit(texts, task, targets.tolist())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each text [texts]; of several labels a 0/1 matrix [texts, labels].

        A model that was loaded with a threshold for a rare class decides by it.
        """
        logits = self._logits(X)
        decided = self.task_.decide(logits)
        chosen: np.ndarray = decided.astype(int) if self.task_.multi_label else self.classes_[decided]
        return chosen

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities in the order of classes_: float64 [texts, classes]; rows sum to 1 unless labels are several."""
        logits = self._logits(X)
        probabilities: np.ndarray = self.task_.probabilities(logits).numpy()
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, of several labels over whole rows. Raises InputError for a missing class, or an unknown label."""
        lists = _label_lists(y)
        gold = _as_array(y) if lists is None else _indicators(lists, self.classes_.tolist())
        check_targets(gold.ravel())
        return float(super().score(X, gold, sample_weight))

    def _weights(self, counts: np.ndarray, num_rows: int, is_multi: bool) -> list[float] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, Mapping):
            strange = [name for name in self.class_weight if name not in self.classes_.tolist()]
            check(not strange, f"class_weight names {strange[:3]!r}; the classes are {self.classes_.tolist()[:10]!r}.")
            return [float(self.class_weight.get(name, 1.0)) for name in self.classes_.tolist()]
        check(
            self.class_weight == "balanced", f"class_weight is {self.class_weight!r}; it is 'balanced', a dict or None."
        )
        return balanced_weights(np.maximum(counts, 1).tolist(), num_rows, is_multi)

    def _own_facts(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        super()._restore(facts)
        classes = own_facts(facts).get("classes", self.task_.labels)
        if not isinstance(classes, list) or len(classes) != self.task_.num_labels:
            raise ModelFolderError("maskwright.json names other classes than the model has outputs.")
        self.classes_ = np.array(classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _as_array(y: Any) -> np.ndarray:
    """y as an array; a list of texts and a missing value stays both, where numpy would make the text 'nan' of it."""
    if isinstance(y, (list, tuple)) and any(isinstance(label, str) for label in y):
        y = np.array(y, dtype=object)
        return y if any(not isinstance(label, str) for label in y.tolist()) else y.astype(str)
    return np.asarray(y)


def _label_lists(y: Any) -> list[Collection[Any]] | None:
    """The labels of each text if y has lists, tuples or sets of them; None for a class each, or a 0/1 matrix.

    Lists of numbers are labels only if their lengths differ. Raises InputError for a missing label, or no list.
    """
    rows = list(y) if isinstance(y, (list, tuple)) or getattr(y, "ndim", 0) == 1 else []
    lists: list[Collection[Any]] = [one for one in rows if isinstance(one, (list, tuple, set, frozenset))]
    has_labels = any(isinstance(one, (set, frozenset)) or any(isinstance(label, str) for label in one) for one in lists)
    if not lists or not (has_labels or len({len(one) for one in lists}) > 1 or len(lists) < len(rows)):
        return None
    for number, one in enumerate(rows):
        if not isinstance(one, (list, tuple, set, frozenset)):
            raise InputError(f"y has lists of labels, but {one!r} for item {number}: pass a list of labels per text.")
        if any(is_missing(label) for label in one):
            raise InputError(f"y has a missing label for item {number}: remove it; an empty list is not a label.")
    return lists


def _names_of(lists: Sequence[Collection[Any]]) -> list[Any]:
    """Labels of lists, sorted. Raises InputError if there are fewer than two, or some are of another type."""
    found = {label for one in lists for label in one}
    if len(found) < 2:
        raise InputError(f"y holds only the labels {sorted(found)!r}: a multi-label classifier needs at least two.")
    _check_types(found)
    return sorted(found)


def _indicators(lists: Sequence[Collection[Any]], names: Sequence[Any]) -> np.ndarray:
    """Lists of labels as a 0/1 matrix [texts, labels]. Raises InputError for an unknown label."""
    columns = {name: column for column, name in enumerate(names)}
    found = np.zeros((len(lists), len(names)), dtype=int)
    for number, one in enumerate(lists):
        for label in one:
            if label not in columns:
                raise InputError(f"y has the label {label!r} for item {number}; the labels are {names[:10]!r}.")
            found[number, columns[label]] = 1
    return found


def _check_types(labels: Collection[Any]) -> None:
    if len({type(label) for label in labels}) > 1:
        raise InputError("y mixes labels of different types: make them all text, or all numbers.")


@dataclass(eq=False, repr=False)
class TextRegressor(RegressorMixin, WholeText):
    """Predicts a number for each text, or pair of texts, with a fine-tuned encoder. `score` is R squared.

    Example:
        >>> regressor = TextRegressor("minilm").fit([("A man sleeps.", "A man is asleep.")], [4.8])
    """

    ability: ClassVar[str] = "numbers"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and numbers. Raises InputError for targets that are not finite numbers."""
        self._check()
        texts = as_texts(X, self.columns)
        check_targets(y, "number")
        try:
            gold = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("y must hold numbers: for classes use TextClassifier.") from None
        check_lengths(texts, gold)
        if gold.ndim != 1 or not np.isfinite(gold).all():
            raise InputError("y must hold one finite number for each text.")
        self._fit(texts, Regression(), gold.tolist())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """One number for each text: float64 [texts]."""
        numbers: np.ndarray = self._logits(X).squeeze(-1).double().numpy()
        return numbers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², as scikit-learn defines it. Raises InputError for a missing number."""
        check_targets(y, "number")
        return float(super().score(X, np.asarray(y, dtype=np.float64), sample_weight))


@dataclass(eq=False, repr=False)
class TokenTagger(FineTuned):
    """Predicts a label for each word of a sentence with a fine-tuned encoder.

    `X` is a list of sentences, each a list of words; `predict` and `entities` also take plain texts, which are split
    into words. `y` has a list of tags for each sentence.

    Args:
        crf: Add a linear-chain conditional random field, which scores whole tag sequences.

    Attributes:
        classes_: The tags.

    Example:
        >>> tagger = TokenTagger("minilm", crf=True).fit([["Anna", "left"]], [["B-PER", "O"]])
        >>> tagger.entities(["Anna left."])
    """

    _: KW_ONLY
    crf: bool = False

    ability: ClassVar[str] = "tag"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sentences and their tags. Raises InputError for what cannot be learned from."""
        self._check()
        rows = _tagged(X, y)
        self._fit_rows(Tagging.from_rows(rows, crf=self.crf), rows)
        return self

    @property
    def classes_(self) -> list[str]:
        """The tags that there are."""
        return list(self.task_.labels)

    def predict(self, X: Any) -> list[list[str]]:
        """The tag of each word: a list for each sentence."""
        check_is_fitted(self, "model_")
        return [answer["tags"] for answer in self._answers(_sentences(X, self.task_.segment))]

    def entities(self, X: Any) -> list[list[dict[str, Any]]]:
        """The entities of each text or sentence: {"type", "text", "start", "end", "score"}, places in characters.

        Of a list of words the text is they with a space between. Raises InputError where tags name no entities.
        """
        check_is_fitted(self, "model_")
        if self.task_.scheme is None:
            raise InputError("These tags are names of words, not of entities: use predict.")
        return [answer["entities"] for answer in self._answers(_sentences(X, self.task_.segment))]

    def score(self, X: Any, y: Any) -> float:
        """entity_f1, or the accuracy over words where tags name no entities."""
        check_is_fitted(self, "model_")
        _, evaluation = self._predictor().evaluate(_tagged(X, y, self.task_.segment))
        return evaluation.metrics[self.task_.main_metric]


def _tagged(X: Any, y: Any, segment: Segment = split_words) -> list[Sentence]:
    """Sentences with their tags. Raises InputError where their numbers differ."""
    if isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
        raise InputError(f"y must be a list with a list of tags for each sentence, not {type(y).__name__}.")
    rows, tags = _sentences(X, segment), list(y)
    check_lengths(rows, tags)
    found = []
    for number, (row, own) in enumerate(zip(rows, tags, strict=True)):
        if isinstance(own, str) or not isinstance(own, Iterable):
            raise InputError(f"Item {number} of y is not a list of tags.")
        given = list(own)
        check_targets(given, "tag", f"Item {number} of y")
        named = [str(tag) for tag in given]
        if len(named) != len(row):
            raise InputError(f"Item {number} has {len(row)} words and {len(named)} tags: they must be as many.")
        found.append(Sentence.of_words(row.words, named, number + 1, "the sentences"))
    return found


def _sentences(X: Any, segment: Segment) -> list[Sentence]:
    """Lists of words, or texts, as sentences. Raises InputError naming the first item that is neither."""
    if is_frame(X):
        raise InputError("Sentences are expected as one column or a list of lists of words, not as a frame.")
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise InputError(f"Sentences are expected as a list of lists of words, not as {type(X).__name__}.")
    rows = []
    for number, item in enumerate(X):
        if isinstance(item, str):
            rows.append(Sentence.of_text(item, number + 1, "the texts", segment))
        elif isinstance(item, Sequence) or hasattr(item, "tolist"):
            rows.append(Sentence.of_words(_words(item, number), None, number + 1, "the sentences"))
        else:
            raise InputError(f"Item {number} is neither a list of words nor a text but {type(item).__name__}.")
    return rows


def _words(item: Any, number: int) -> list[str]:
    words = item.tolist() if hasattr(item, "tolist") else list(item)
    wrong = next((word for word in words if not isinstance(word, str) or not word.strip()), None)
    if wrong is not None or not words:
        raise InputError(f"Item {number} has {'no words' if not words else f'{wrong!r} where a word is needed'}.")
    return words


@dataclass(eq=False, repr=False)
class AnomalyDetector(OutlierMixin, WholeText):
    """Detects anomalous texts by the reconstruction error of an autoencoder on frozen embeddings.

    `fit` takes only normal texts and ignores `y`. As in scikit-learn, `score_samples` is higher for normal texts (the
    negative error), `decision_function` is below 0 for outliers, and `predict` returns 1 for normal texts and -1 for
    others.

    Args:
        epochs: Number of epochs.
        lr: Peak learning rate.
        pool: Error of a text in windows: the "mean" or "max" of its windows.
        contamination: Fraction of the texts of `fit` above the threshold.

    Attributes:
        offset_: Threshold of `score_samples`.

    Example:
        >>> detector = AnomalyDetector("minilm").fit(normal_texts)
        >>> detector.predict(texts)  # 1 normal, -1 not
    """

    _: KW_ONLY
    epochs: int = 30
    lr: float = 1e-3
    contamination: float = 1 - QUANTILE
    freeze_encoder: bool = field(default=False, init=False)  # it always is
    adapter: AdapterSettings = field(default=None, init=False)

    ability: ClassVar[str] = "detect-anomalies"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from normal texts. Raises InputError for none."""
        self._check()
        part = self.contamination
        fits = isinstance(part, float | np.floating) and 0 < part <= 0.5
        check(fits, f"contamination is {part!r}; it must be above 0 and at most 0.5.")
        texts = as_texts(X, self.columns)
        if not texts:
            raise InputError("X is empty: at least one text is needed.")
        self._fit(texts, Anomaly(quantile=float(1 - part)), [0] * len(texts))
        errors = -self.score_samples(texts)
        self.task_.threshold = Threshold(float(np.quantile(errors, 1 - part)))
        self.offset_ = -self.task_.threshold.value
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """The negative reconstruction error of each text, higher for normal ones: float64 [texts]."""
        scores: np.ndarray = -self._logits(X).squeeze(-1).double().numpy()
        return scores

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus offset_, below 0 for outliers: float64 [texts]."""
        check_is_fitted(self, "offset_")
        decided: np.ndarray = self.score_samples(X) - self.offset_
        return decided

    def predict(self, X: Any) -> np.ndarray:
        """1 for normal texts, -1 for outliers: int [texts]."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _own_facts(self) -> dict[str, Any]:
        return {"offset": self.offset_}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        super()._restore(facts)
        offset = own_facts(facts).get("offset")
        threshold = self.task_.threshold
        if isinstance(offset, float):
            self.offset_ = offset
        elif threshold is not None:  # of `maskwright finetune`
            self.offset_ = -threshold.value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@dataclass(eq=False, repr=False)
class QuestionAnswerer(FineTuned):
    """Extracts the answer span of a question from its context with a fine-tuned encoder.

    `X` has (question, context) pairs, or is a data frame with the columns `question` and `context`. `y` has the answer
    of each: a text from the context, a list of such texts, or "" or [] if the context has no answer.

    Example:
        >>> answerer = QuestionAnswerer("minilm").fit([("Who sleeps?", "The old man sleeps.")], ["The old man"])
        >>> answerer.answer([("Who sleeps?", "The old man sleeps.")], top_k=3)
    """

    ability: ClassVar[str] = "answer"

    def fit(self, X: Any, y: Any) -> Self:
        """Train. Raises InputError for an answer that is not in its context, with the nearest match."""
        self._check()
        pairs = _pairs(X)
        check_lengths(pairs, y)
        rows = [
            _question(number, pair, gold) for number, (pair, gold) in enumerate(zip(pairs, y, strict=True), start=1)
        ]
        self._fit_rows(QuestionAnswering.from_rows(rows), rows)
        return self

    def answer(self, X: Any, top_k: int = 1) -> list[Answer]:
        """Returns answers with character offsets and probabilities, and the `top_k` best spans of each context."""
        return Answerer(self._predictor()).answer(_pairs(X), top_k)

    def predict(self, X: Any) -> list[str]:
        """Returns the text of each answer, "" for a no-answer prediction."""
        return [found.answer["answer"] for found in self.answer(X)]

    def score(self, X: Any, y: Any) -> float:
        """Mean F1, as SQuAD defines it."""
        found = self.predict(X)
        check_lengths(found, y)
        return float(np.mean([score_answer(text, _texts(gold))[1] for text, gold in zip(found, y, strict=True)]))


def _pairs(X: Any) -> list[tuple[str, str]]:
    if is_frame(X):
        X = texts_of_table(X, ("question", "context"))
    pairs = [tuple(pair) if isinstance(pair, (tuple, list, np.ndarray)) else (pair,) for pair in X]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(f"Item {number} is no pair of a question and its context: give (question, context).")
    return [(str(question), str(context)) for question, context in pairs]


def _texts(gold: Any) -> Sequence[str]:
    if gold is not None:
        check_targets([gold] if isinstance(gold, str) or not isinstance(gold, Iterable) else gold, "answer")
    texts = [gold] if isinstance(gold, str) else list(gold or [])
    return [text for text in texts if text]


def _question(number: int, pair: tuple[str, str], gold: Any) -> Question:
    found = []
    for text in _texts(gold):
        start, reason = find_answer(text, pair[1])
        if reason is not None:
            raise InputError(f"Item {number - 1}: {reason}.")
        found.append(ReferenceAnswer(text, start))
    return Question(str(number), *pair, tuple(found), number, "X")


ROLES = ("context", "question", "choices")  # the columns of a frame


@dataclass(eq=False, repr=False)
class MultipleChoice(WholeText):
    """Predicts which of several choices fits a context, with a fine-tuned encoder.

    `X` has rows (context, [choices]) or (context, question, [choices]), or is a data frame with columns of these names.
    Context or question may be ""; all rows have the same number of choices. `y` has the index of each right choice,
    from 0.

    Args:
        columns: Columns of context, question and choices, in this order; None for these names.

    Example:
        >>> chooser = MultipleChoice("minilm").fit([("Tom was hungry. He", ["ate.", "slept."])], [0])
    """

    ability: ClassVar[str] = "choose"
    roles: ClassVar[tuple[str, ...]] = ROLES

    def fit(self, X: Any, y: Any) -> Self:
        """Train. Raises RowErrors for rows or labels that cannot be used, all of them named, counted from 1."""
        self._check()
        rows = _rows(X, y, self.columns)
        task = Choice.from_rows(rows)
        task.long = self._long()
        self._fit_rows(task, rows)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each choice: float64 [rows, choices]; rows sum to 1."""
        return np.array([answer["probabilities"] for answer in self._answers(_rows(X, columns=self.columns))])

    def predict(self, X: Any) -> np.ndarray:
        """The number of the most probable choice: int64 [rows]."""
        chosen: np.ndarray = self.predict_proba(X).argmax(axis=1)
        return chosen

    def score(self, X: Any, y: Any) -> float:
        """Returns the accuracy."""
        rows = _rows(X, y, self.columns)
        return float(np.mean(self.predict(X) == np.array([row.label for row in rows])))


def _rows(X: Any, y: Any = None, columns: Sequence[Column] | None = None) -> list[ChoiceRow]:
    """Returns rows from memory. Raises InputError for an item that is not a row, RowErrors for invalid rows."""
    if is_frame(X) or (is_table(X) and columns is not None):
        own = [role for role in ROLES if role != "question" or role in column_names(X)]
        X = texts_of_table(X, columns or own)
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise InputError(f"Rows are expected as a list of (context, [choices]), not as {type(X).__name__}.")
    items = [_named(number, item) for number, item in enumerate(X)]
    if y is None:
        return choices_of(items, with_labels=False)
    if isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
        raise InputError(f"y must be a list of numbers, one for each row, not {type(y).__name__}.")
    labels = y.tolist() if hasattr(y, "tolist") else [_plain(label) for label in y]
    check_lengths(items, labels)
    check_targets(labels, "number")
    return choices_of([{**item, "label": label} for item, label in zip(items, labels, strict=True)])


def _named(number: int, item: Any) -> dict[str, Any]:
    parts = list(item) if isinstance(item, (tuple, list, np.ndarray)) else []
    if len(parts) not in (2, 3) or isinstance(parts[-1], str) or not isinstance(parts[-1], Iterable):
        raise InputError(f"Item {number} is not a row: pass (context, [choices]) or (context, question, [choices]).")
    context, *question, choices = parts
    return {
        "context": context,
        "question": question[0] if question else "",
        "choices": [_plain(one) for one in choices],
    }


def _plain(value: Any) -> Any:
    """A number or text of numpy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
