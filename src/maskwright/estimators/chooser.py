"""Multiple choice, in the manner of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InputError
from ..core.progress import warn
from ..inference.predict import Predictor
from ..inference.ready import tokenizer_of
from ..tasks.choice.task import Choice
from ..tasks.rows.examples import Examples
from ..text.readers.choices import ChoiceRow, choices_of
from ..text.readers.inputs import Column, column_names, is_frame, is_table, texts_of_table
from .fine_tuned import check_lengths
from .whole_text import WholeText

ROLES = ("context", "question", "choices")  # the columns of a frame


class MultipleChoice(WholeText):
    """A fine-tuned encoder that chooses, for each row, one of its texts. Parameters as those of WholeText.

    X: rows (context, [choices]) or (context, question, [choices]), or a frame with columns of these names (or
    `columns`, in that order); context or question may be "", and all rows have as many choices. y: for each the number
    of the right choice, from 0. After fit: model_, task_.
    """

    _heads = ("choice",)
    _roles = ROLES
    task_: Choice

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train. Raises RowErrors for rows or labels that cannot be used, all of them named, counted from 1."""
        self._check()
        rows = _rows(X, y, self.columns)
        task = Choice.from_rows(rows)
        task.long = self._long()
        model, is_new_head = self._start(task)
        examples: Examples = task.examples(rows, tokenizer_of(model), self._room(model))
        for remark in task.notes(examples, "training", self._room(model)):
            warn(remark)
        examples = task.for_training(examples)
        self._train(model, task, examples, is_new_head)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of each choice: float64 [rows, choices]; rows sum to 1."""
        check_is_fitted(self, "model_")
        predictor = Predictor(self.model_, self.task_, self._room(self.model_))
        answers = [answer["probabilities"] for _, answer in predictor.stream(_rows(X, columns=self.columns))]
        if predictor.counts.cut_texts:
            warn(predictor.counts.note())
        return np.array(answers)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The number of the most probable choice: int64 [rows]."""
        chosen: np.ndarray = self.predict_proba(X).argmax(axis=1)
        return chosen

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Returns the accuracy."""
        rows = _rows(X, y, self.columns)
        return float(np.mean(self.predict(X) == np.array([row.label for row in rows])))


def _rows(X: Any, y: Any = None, columns: Sequence[Column] | None = None) -> list[ChoiceRow]:  # noqa: N803
    """Returns rows from memory. Raises InputError for an item that is not a row, RowErrors for invalid rows."""
    if is_frame(X) or (is_table(X) and columns is not None):
        own = [role for role in ROLES if role != "question" or role in column_names(X)]
        X = texts_of_table(X, columns or own)  # noqa: N806
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise InputError(f"Rows are expected as a list of (context, [choices]), not as {type(X).__name__}.")
    items = [_named(number, item) for number, item in enumerate(X)]
    if y is None:
        return choices_of(items, with_labels=False)
    if isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
        raise InputError(f"y must be a list of numbers, one for each row, not {type(y).__name__}.")
    labels = y.tolist() if hasattr(y, "tolist") else [_plain(label) for label in y]
    check_lengths(items, labels)
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
