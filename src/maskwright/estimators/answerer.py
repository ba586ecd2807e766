"""Questions on contexts, in the manner of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InputError
from ..inference.answer import Answer, Answerer
from ..inference.predict import Predictor
from ..models.model import tokenizer_of
from ..tasks.qa.scores import score_answer
from ..tasks.qa.task import QuestionAnswering
from ..text.readers.answer_positions import find_answer
from ..text.readers.inputs import is_frame, texts_of_table
from ..text.readers.squad import Question, ReferenceAnswer
from .fine_tuned import FineTuned, check_lengths, check_targets


class QuestionAnswerer(FineTuned):
    """Extracts the answer span of a question from its context with a fine-tuned encoder.

    `X` has (question, context) pairs, or is a data frame with the columns `question` and `context`. `y` has the answer
    of each: a text from the context, a list of such texts, or "" or [] if the context has no answer.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
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
        >>> answerer = QuestionAnswerer("minilm").fit([("Who sleeps?", "The old man sleeps.")], ["The old man"])
        >>> answerer.answer([("Who sleeps?", "The old man sleeps.")], top_k=3)
    """

    _ability = "answer"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train. Raises InputError for an answer that is not in its context, with the nearest match."""
        self._check()
        pairs = _pairs(X)
        check_lengths(pairs, y)
        rows = [
            _question(number, pair, gold) for number, (pair, gold) in enumerate(zip(pairs, y, strict=True), start=1)
        ]
        task = QuestionAnswering.from_rows(rows)
        model, is_new_head = self._start(task)
        examples = task.examples(rows, tokenizer_of(model), self._room(model))
        self._train(model, task, examples, is_new_head)
        return self

    def answer(self, X: Any, top_k: int = 1) -> list[Answer]:  # noqa: N803
        """Returns answers with character offsets and probabilities, and the `top_k` best spans of each context."""
        check_is_fitted(self, "model_")
        predictor = Predictor(self.model_, self.task_, self._room(self.model_))
        return Answerer(predictor).answer(_pairs(X), top_k)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """Returns the text of each answer, "" for a no-answer prediction."""
        return [found.answer["answer"] for found in self.answer(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Mean F1, as SQuAD defines it."""
        found = self.predict(X)
        check_lengths(found, y)
        return float(np.mean([score_answer(text, _texts(gold))[1] for text, gold in zip(found, y, strict=True)]))


def _pairs(X: Any) -> list[tuple[str, str]]:  # noqa: N803
    if is_frame(X):
        X = texts_of_table(X, ("question", "context"))  # noqa: N806
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
