"""What the estimators share that answer once for each text: texts that are too long are cut, or read in windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..api import open_generator, open_mask_filler, open_translator
from ..core.errors import InputError
from ..core.progress import warn
from ..hub.published import ENGLISH
from ..inference.answer import Answer, Answerer
from ..inference.fill_mask import FilledText, MaskFiller
from ..inference.generate import Continuation, Generation, TextGenerator
from ..inference.predict import Predictor
from ..inference.prepared import as_texts, single_texts
from ..inference.ready import place
from ..inference.translate import TextTranslator, Translated, TranslationSettings
from ..models.decoding.rules import Rules
from ..models.model import Model, tokenizer_of
from ..tasks.base import Task
from ..tasks.choice import Choice
from ..tasks.examples import Examples, rows_of
from ..tasks.qa.task import QuestionAnswering, score_answer
from ..tasks.sequence import SequenceTask
from ..tasks.translation import corpus_scores
from ..tasks.windows import MAX_WINDOWS, LongTexts
from ..text.readers.choices import ChoiceRow, choices_of
from ..text.readers.inputs import PAIR_COLUMNS, Column, check_columns, column_names, is_frame, is_table, texts_of_table
from ..text.readers.squad import Question, ReferenceAnswer, find_answer
from ..train.schedules import Schedule
from .fine_tuned import AdapterSettings, FineTuned, ModelSource, check_lengths, check_targets
from .fine_tuned import check_lengths as check_pairs


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


# -- Masked words, in the manner of a scikit-learn estimator ---------------------------------------------------------


class FillMask(BaseEstimator):
    """Predicts masked tokens with a pre-trained model. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        top_k: Number of candidates that `fill` returns for each mask.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> FillMask("runs/mini/model").fill("the [MASK] of the river")[0].masks[0].candidates
    """

    def __init__(
        self, model: ModelSource = ENGLISH, *, top_k: int = 5, device: str = "auto", precision: str = "auto"
    ) -> None:
        self.model = model
        self.top_k = top_k
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            self.filler_ = MaskFiller(place(deepcopy(self.model), self.device, self.precision))
        else:
            self.filler_ = open_mask_filler(self.model, device=self.device, precision=self.precision)
        return self

    def fill(self, texts: Any, targets: Sequence[str] | None = None) -> list[FilledText]:
        """The masks of each text with their `top_k` candidates and probabilities; targets: of these words only."""
        top_k = None if targets else self.top_k
        return self._filler().fill(single_texts(texts, "Texts with masks"), top_k, targets)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """Each text with the most probable token in place of every mask."""
        return [found.filled for found in self._filler().fill(single_texts(X, "Texts with masks"), top_k=1)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:  # noqa: N803
        """The probability of every token of the vocabulary: float64 [masks, vocab] for each text, rows sum to 1."""
        return [self._filler().probabilities(text) for text in single_texts(X, "Texts with masks")]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Share of texts, with one mask each, whose most probable token is the word in y."""
        filler = self._filler()
        found = filler.fill(single_texts(X, "Texts with masks"), top_k=1)
        check_targets(y, "word")
        words = [filler.token_of(str(word)) for word in y]
        check_lengths(found, words)
        return float(
            np.mean(
                [
                    len(text.masks) == 1 and text.masks[0].candidates[0].token == word
                    for text, word in zip(found, words, strict=True)
                ]
            )
        )

    def _filler(self) -> MaskFiller:
        if not hasattr(self, "filler_"):
            self.fit()
        return self.filler_

    def __sklearn_is_fitted__(self) -> bool:
        return True


# -- Text generation with the interface of a scikit-learn estimator --------------------------------------------------


class Generator(BaseEstimator):
    """Generates continuations with a causal language model. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        max_new_tokens: Maximum length of a continuation in tokens.
        greedy: Select the most probable token instead of sampling.
        temperature: Divides the logits; below 1 sharpens the distribution.
        top_k: Sample from this many most probable tokens; None for all.
        top_p: Sample from the most probable tokens with this total probability; None for all.
        repetition_penalty: Above 1 lowers the probability of earlier tokens.
        num_results: Number of continuations per prompt.
        beams: Beam size; 1 disables beam search.
        length_penalty: Length penalty of beam search; above 0 favors longer texts.
        stop: Texts before which a continuation ends.
        max_length: Context length in tokens; None as in training.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> Generator("runs/g/model", top_k=40, random_state=1).predict(["Once upon a time"])
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        max_new_tokens: int = 50,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        num_results: int = 1,
        beams: int = 1,
        length_penalty: float = 1.0,
        stop: Sequence[str] = (),
        max_length: int | None = None,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.max_new_tokens = max_new_tokens
        self.greedy = greedy
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.repetition_penalty = repetition_penalty
        self.num_results = num_results
        self.beams = beams
        self.length_penalty = length_penalty
        self.stop = stop
        self.max_length = max_length
        self.random_state = random_state
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            model = place(deepcopy(self.model), self.device, self.precision)
            self.generator_ = TextGenerator(model, max_length=self.max_length)
        else:
            self.generator_ = open_generator(
                self.model, max_length=self.max_length, device=self.device, precision=self.precision
            )
        return self

    def generate(self, prompts: Any) -> list[list[Continuation]]:
        """`num_results` continuations of each prompt, with their scores and why they ended."""
        return self._generator().generate(single_texts(prompts, "Prompts"), self._settings())

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """What the model adds to each prompt; the first of several results."""
        return [found[0].text for found in self.generate(X)]

    def complete(self, text: str, k: int = 3, max_new_tokens: int = 8) -> list[Continuation]:
        """`k` suggestions of what comes next, the most probable first; see `TextGenerator.complete`."""
        return self._generator().complete(text, k, max_new_tokens)

    def _settings(self) -> Generation:
        rules = Rules(self.greedy, self.temperature, self.top_k, self.top_p, self.repetition_penalty)
        return Generation(
            self.max_new_tokens,
            rules,
            self.num_results,
            self.beams,
            self.length_penalty,
            stop=tuple(self.stop),
            seed=self.random_state,
        )

    def _generator(self) -> TextGenerator:
        if not hasattr(self, "generator_"):
            self.fit()
        return self.generator_

    def __sklearn_is_fitted__(self) -> bool:
        return True


# -- Translation in the manner of a scikit-learn estimator -----------------------------------------------------------


class Translator(BaseEstimator):
    """Translates texts with an encoder-decoder. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        beams: Beam size; 1 for greedy decoding.
        num_results: Number of translations per text.
        length_penalty: Above 0 favors longer translations.
        max_new_tokens: Maximum length of a translation in tokens; None for 50 more than its source.
        max_length: Maximum source length in tokens; None as in training.
        to: Target language of a multilingual model.
        brackets: Results are bracket strings: "flag" prefers well-formed ones, "enforce" allows nothing else.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> Translator("runs/t/model", beams=5).predict(["Ein Hund läuft."])
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        beams: int = 5,
        num_results: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        to: str | None = None,
        brackets: str | None = None,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.beams = beams
        self.num_results = num_results
        self.length_penalty = length_penalty
        self.max_new_tokens = max_new_tokens
        self.max_length = max_length
        self.to = to
        self.brackets = brackets
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            own = place(deepcopy(self.model), self.device, self.precision)
            self.translator_ = TextTranslator(own, self.max_length)
        else:
            self.translator_ = open_translator(
                self.model, max_length=self.max_length, device=self.device, precision=self.precision
            )
        return self

    def translate(self, X: Any) -> list[list[Translated]]:  # noqa: N803
        """`num_results` translations of each text, best first, with their scores."""
        if not hasattr(self, "translator_"):
            self.fit()
        settings = TranslationSettings(
            self.beams, self.num_results, self.length_penalty, self.max_new_tokens, self.to, self.brackets
        )
        return self.translator_.translate(single_texts(X, "Texts to translate"), settings)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """The best translation of each text."""
        return [found[0].text for found in self.translate(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """BLEU of the translations of X against the texts y, 0 to 100. Raises MissingExtraError without sacrebleu."""
        texts, wanted = single_texts(X, "Texts to translate"), single_texts(y, "Texts to translate")
        check_pairs(texts, wanted)
        return corpus_scores(self.predict(texts), wanted)[0]["bleu"]

    def __sklearn_is_fitted__(self) -> bool:
        return True


# -- Questions on contexts, in the manner of a scikit-learn estimator ------------------------------------------------


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


# -- Multiple choice, in the manner of a scikit-learn estimator ------------------------------------------------------


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
