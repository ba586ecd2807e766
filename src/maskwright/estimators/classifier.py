"""Texts to classes, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..core.progress import note, warn
from ..hub.published import ENGLISH
from ..inference.predict import Predictor
from ..inference.prepared import as_texts
from ..models.model import tokenizer_of
from ..tasks.classification.task import Classification, balanced_weights
from ..tasks.regression.task import Regression
from ..tasks.rows.long_examples import MAX_WINDOWS
from ..tasks.tagging.task import Tagging
from ..text.readers.inputs import Column, is_frame
from ..text.readers.tagged import Segment, Sentence
from ..text.words import split_words
from ..train.schedules import Schedule
from .fine_tuned import AdapterSettings, FineTuned, ModelSource, check_lengths, check_targets, is_missing, own_facts
from .whole_text import WholeText


class TextClassifier(ClassifierMixin, WholeText):
    """Classifies texts, or pairs of texts, with a fine-tuned encoder.

    `y` has one class per text; for multi-label classification a list, tuple or set of labels per text, or a 0/1 matrix
    [texts, labels].

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        long: "cut" truncates longer texts; "windows" reads them in overlapping windows.
        stride: Overlap of neighboring windows in tokens; None for a third of `max_length`, at most 128.
        pool: How the logits of the windows are pooled: "mean" or "max".
        max_windows: Maximum number of windows of one text in training.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        class_weight: None, "balanced" (inverse class frequency), or a dict from class to weight.
        focal: Gamma of the focal loss; None for cross-entropy.
        resample: Sample rows of rare classes more often: "balanced", "sqrt", or None.
        freeze_encoder: Train only the pooler and the head.
        adapter: "lora" to train a LoRA adapter and the head, or a dict of its settings (rank, alpha, targets,
            dropout). It needs a model by name; `save` writes an adapter folder.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        classes_: Array [classes], in the order of `predict_proba`; of a 0/1 matrix the numbers of its columns.
        model_: The trained model.
        task_: Its task: labels, settings of predictions.

    Example:
        >>> classifier = TextClassifier("minilm", epochs=3).fit(texts, labels)
        >>> classifier.predict(["the invoice lists two seats too many"])
        array(['Billing'], dtype='<U8')
    """

    _ability = "classes"
    task_: Classification

    def __init__(
        self,
        model: ModelSource = ENGLISH,
        *,
        epochs: int | None = None,
        lr: float | None = None,
        learning_rate: float | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
        long: str = "cut",
        stride: int | None = None,
        pool: str = "mean",
        max_windows: int = MAX_WINDOWS,
        columns: Sequence[Column] | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        focal: float | None = None,
        resample: str | None = None,
        freeze_encoder: bool = False,
        adapter: AdapterSettings = None,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        schedule: Schedule = "linear",
        accumulation: int = 1,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        super().__init__(
            model,
            epochs=epochs,
            lr=lr,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_length=max_length,
            long=long,
            stride=stride,
            pool=pool,
            max_windows=max_windows,
            columns=columns,
            freeze_encoder=freeze_encoder,
            adapter=adapter,
            warmup=warmup,
            weight_decay=weight_decay,
            schedule=schedule,
            accumulation=accumulation,
            random_state=random_state,
            device=device,
            precision=precision,
        )
        self.class_weight = class_weight
        self.focal = focal
        self.resample = resample

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
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
            self.classes_, targets = np.unique(_known(gold), return_inverse=True)
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

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most probable class of each text [texts]; of several labels a 0/1 matrix [texts, labels].

        A model that was loaded with a threshold for a rare class decides by it.
        """
        logits = self._logits(X)
        decided = self.task_.decide(logits)
        chosen: np.ndarray = decided.astype(int) if self.task_.multi_label else self.classes_[decided]
        return chosen

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Probabilities in the order of classes_: float64 [texts, classes]; rows sum to 1 unless labels are several."""
        logits = self._logits(X)
        probabilities: np.ndarray = self.task_.probabilities(logits).numpy()
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
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
            raise InputError(f"y has a missing label for item {number}: remove it; an empty list is no label.")
    return lists


def _names_of(lists: Sequence[Collection[Any]]) -> list[Any]:
    """Labels of lists, sorted. Raises InputError if there are fewer than two, or some are of another type."""
    found = {label for one in lists for label in one}
    if len(found) < 2:
        raise InputError(f"y holds only the labels {sorted(found)!r}: a multi-label classifier needs at least two.")
    if len({type(label) for label in found}) > 1:
        raise InputError("y mixes labels of different types: make them all text, or all numbers.")
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


def _known(labels: np.ndarray) -> np.ndarray:
    """The labels, none of which is missing. Raises InputError."""
    check_targets(labels)
    if len({type(label) for label in labels.tolist()}) > 1:
        raise InputError("y mixes classes of different types: make them all text, or all numbers.")
    return labels


# -- Texts to numbers, as a scikit-learn regressor -------------------------------------------------------------------


class TextRegressor(RegressorMixin, WholeText):
    """Predicts a number for each text, or pair of texts, with a fine-tuned encoder. `score` is R squared.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        long: "cut" truncates longer texts; "windows" reads them in overlapping windows.
        stride: Overlap of neighboring windows in tokens; None for a third of `max_length`, at most 128.
        pool: How the logits of the windows are pooled: "mean" or "max".
        max_windows: Maximum number of windows of one text in training.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
        freeze_encoder: Train only the pooler and the head.
        adapter: "lora" to train a LoRA adapter and the head, or a dict of its settings (rank, alpha, targets,
            dropout). It needs a model by name; `save` writes an adapter folder.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        model_: The trained model.
        task_: Its task: labels, settings of predictions.

    Example:
        >>> regressor = TextRegressor("minilm").fit([("A man sleeps.", "A man is asleep.")], [4.8])
    """

    _ability = "numbers"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
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

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """One number for each text: float64 [texts]."""
        numbers: np.ndarray = self._logits(X).squeeze(-1).double().numpy()
        return numbers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """R², as scikit-learn defines it. Raises InputError for a missing number."""
        check_targets(y, "number")
        return float(super().score(X, np.asarray(y, dtype=np.float64), sample_weight))


# -- Words to tags, as a scikit-learn estimator ----------------------------------------------------------------------


class TokenTagger(FineTuned):
    """Predicts a label for each word of a sentence with a fine-tuned encoder.

    `X` is a list of sentences, each a list of words; `predict` and `entities` also take plain texts, which are split
    into words. `y` has a list of tags for each sentence.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        crf: Add a linear-chain conditional random field, which scores whole tag sequences.
        freeze_encoder: Train only the pooler and the head.
        adapter: "lora" to train a LoRA adapter and the head, or a dict of its settings (rank, alpha, targets,
            dropout). It needs a model by name; `save` writes an adapter folder.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        classes_: The tags.
        model_: The trained model.
        task_: Its task: labels, settings of predictions.

    Example:
        >>> tagger = TokenTagger("minilm", crf=True).fit([["Anna", "left"]], [["B-PER", "O"]])
        >>> tagger.entities(["Anna left."])
    """

    _ability = "tag"
    task_: Tagging

    def __init__(
        self,
        model: ModelSource = ENGLISH,
        *,
        epochs: int | None = None,
        lr: float | None = None,
        learning_rate: float | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
        crf: bool = False,
        freeze_encoder: bool = False,
        adapter: AdapterSettings = None,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        schedule: Schedule = "linear",
        accumulation: int = 1,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        super().__init__(
            model,
            epochs=epochs,
            lr=lr,
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_length=max_length,
            freeze_encoder=freeze_encoder,
            adapter=adapter,
            warmup=warmup,
            weight_decay=weight_decay,
            schedule=schedule,
            accumulation=accumulation,
            random_state=random_state,
            device=device,
            precision=precision,
        )
        self.crf = crf

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on sentences and their tags. Raises InputError for what cannot be learned from."""
        self._check()
        rows = _tagged(X, y)
        task = Tagging.from_rows(rows, crf=self.crf)
        model, is_new_head = self._start(task)
        examples = task.examples(rows, tokenizer_of(model), self._room(model))
        for fact in task.facts(examples, "train"):
            note(fact)
        for remark in task.notes(examples, "train", self._room(model)):
            warn(remark)
        self._train(model, task, examples, is_new_head)
        return self

    @property
    def classes_(self) -> list[str]:
        """The tags that there are."""
        return list(self.task_.labels)

    def predict(self, X: Any) -> list[list[str]]:  # noqa: N803
        """The tag of each word: a list for each sentence."""
        return [answer["tags"] for answer in self._answers(X)]

    def entities(self, X: Any) -> list[list[dict[str, Any]]]:  # noqa: N803
        """The entities of each text or sentence: {"type", "text", "start", "end", "score"}, places in characters.

        Of a list of words the text is they with a space between. Raises InputError where tags name no entities.
        """
        check_is_fitted(self, "model_")
        if self.task_.scheme is None:
            raise InputError("These tags are names of words, not of entities: use predict.")
        return [answer["entities"] for answer in self._answers(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """entity_f1, or the accuracy over words where tags name no entities."""
        check_is_fitted(self, "model_")
        rows = _tagged(X, y, self.task_.segment)
        _, evaluation = self._predictor().evaluate(rows)
        return evaluation.metrics[self.task_.main_metric]

    def _answers(self, X: Any) -> list[dict[str, Any]]:  # noqa: N803
        check_is_fitted(self, "model_")
        return [answer for _, answer in self._predictor().stream(_sentences(X, self.task_.segment))]

    def _predictor(self) -> Predictor:
        return Predictor(self.model_, self.task_, self._room(self.model_))


def _tagged(X: Any, y: Any, segment: Segment = split_words) -> list[Sentence]:  # noqa: N803
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


def _sentences(X: Any, segment: Segment) -> list[Sentence]:  # noqa: N803
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
