"""Multiple choice, in the manner of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InputError
from ..core.progress import warn
from ..inference.predict import Predictor
from ..models.model import tokenizer_of
from ..tasks.choice.task import Choice
from ..tasks.rows.examples import Examples
from ..text.readers.choices import ChoiceRow, choices_of
from ..text.readers.inputs import Column, column_names, is_frame, is_table, texts_of_table
from .fine_tuned import check_lengths, check_targets
from .whole_text import WholeText

ROLES = ("context", "question", "choices")  # the columns of a frame


class MultipleChoice(WholeText):
    """Predicts which of several choices fits a context, with a fine-tuned encoder.

    `X` has rows (context, [choices]) or (context, question, [choices]), or is a data frame with columns of these names.
    Context or question may be ""; all rows have the same number of choices. `y` has the index of each right choice,
    from 0.

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
        columns: Columns of context, question and choices, in this order; None for these names.
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
        >>> chooser = MultipleChoice("minilm").fit([("Tom was hungry. He", ["ate.", "slept."])], [0])
    """

    _ability = "choose"
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
