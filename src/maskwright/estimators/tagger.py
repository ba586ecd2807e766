"""Words to tags, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from ..core.errors import InputError
from ..core.progress import note, warn
from ..hub.published import ENGLISH
from ..inference.predict import Predictor
from ..models.model import tokenizer_of
from ..tasks.tagging.task import Tagging
from ..text.readers.inputs import is_frame
from ..text.readers.sentence import Segment, Sentence
from ..text.words import split_words
from ..train.schedules import Schedule
from .fine_tuned import AdapterSettings, FineTuned, ModelSource, check_lengths, check_targets


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
