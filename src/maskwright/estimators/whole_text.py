"""What the estimators share that answer once for each text: texts that are too long are cut, or read in windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..core.progress import warn
from ..hub.published import ENGLISH
from ..inference.predict import Predictor
from ..inference.texts import as_texts
from ..models.model import tokenizer_of
from ..tasks.base import Task
from ..tasks.choice.task import Choice
from ..tasks.rows.examples import rows_of
from ..tasks.rows.long_texts import MAX_WINDOWS, LongTexts
from ..tasks.rows.sequence import SequenceTask
from ..text.readers.inputs import PAIR_COLUMNS, Column, check_columns
from ..train.schedules import Schedule
from .fine_tuned import AdapterSettings, FineTuned, ModelSource


class WholeText(FineTuned):
    """Base class of the estimators with one prediction per text, pair of texts, or row of choices.

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
    """

    _roles: tuple[str, ...] = PAIR_COLUMNS  # what `columns` names
    task_: SequenceTask | Choice

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
        self.long = long
        self.stride = stride
        self.pool = pool
        self.max_windows = max_windows
        self.columns = columns

    @classmethod
    def load(cls, folder: str | Path, **parameters: Any) -> Self:
        """A fitted estimator from a model folder; see FineTuned. What `long` and its like replace holds at once."""
        estimator = super().load(folder, **parameters)
        if estimator.task_.long is None or not estimator.task_.long.both_orders:
            estimator.task_.long = estimator._long()
        return estimator

    def _fit(self, texts: Sequence[Any], task: SequenceTask, targets: Sequence[Any]) -> None:
        """Train the head, and the encoder unless frozen, on texts with the targets of `task`."""
        task.long = self._long()
        model, is_new_head = self._start(task)
        room = self._room(model)
        examples = task.tokenize(rows_of(texts), tokenizer_of(model), room, task.as_targets(targets))
        examples = task.for_training(examples)
        if task.long is not None:
            for remark in task.notes(examples, "train", room):
                warn(remark)
        elif examples.num_truncated:
            warn(f"{examples.counts.note()} Raise max_length (now {room}) to keep them whole.")
        self._train(model, task, examples, is_new_head)

    def _logits(self, X: Any) -> Tensor:  # noqa: N803 - scikit-learn's name
        """float32 [texts, labels]."""
        check_is_fitted(self, "model_")
        predictor = Predictor(self.model_, self.task_, self._room(self.model_))
        logits = predictor.logits(as_texts(X, self.columns))
        if predictor.counts.cut_texts:
            warn(predictor.counts.note())
        return logits

    def _check(self) -> None:
        super()._check()
        self._long()
        check_columns(self.columns, self._roles)

    def _long(self) -> LongTexts | None:
        return LongTexts.of(self.long, self.stride, self.pool, self.max_windows)

    @classmethod
    def _parameters_of(cls, task: Task) -> dict[str, Any]:
        long: LongTexts | None = getattr(task, "long", None)
        return {} if long is None or long.both_orders else {"long": "windows", **long.to_json()}
