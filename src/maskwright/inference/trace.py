"""Tensor shapes per step of one text through a fine-tuned model: tokens x hidden, hidden, labels.

Counts are given in subword tokens, and in whitespace-separated words, which are the mean of their token embeddings.
Both include the special tokens; counts without the closing [SEP] are given too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from ..tasks.examples import rows_of
from ..tasks.sequence import SequenceTask
from ..tasks.windows import text_windows
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import Encoding
from .predict import Predictor

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Step:
    """One tensor of the forward pass: name, shape and description."""

    name: str
    shape: tuple[int, ...]
    note: str

    @property
    def size(self) -> str:
        """The shape as text, such as 16x768."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class Trace:
    """Tensor shapes of one text.

    tokens: subword tokens that the encoder reads; words: split at whitespace; both with special tokens. num_closing:
    number of special tokens at the end ([SEP]: 1); answer: as from `task.decode`.
    """

    tokens: list[str]
    words: list[str]
    steps: list[Step]
    answer: dict[str, Any]
    num_closing: int = 0

    def summary(self, count: str = "words", *, closing: bool = True) -> str:
        """Return the shapes in one line: 17x768 -> 768 -> 3.

        count: "words" or "pieces" (subword tokens); closing: False excludes the closing special token: 16x768 -> 768
        -> 3.
        """
        start = "word embeddings" if count == "words" else "hidden states"
        steps = {step.name: step for step in self.steps}
        rows, *width = steps[start].shape
        first = Step(start, (rows if closing else rows - self.num_closing, *width), "")
        return " -> ".join(step.size for step in (first, steps["pooled"], steps["logits"]))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        steps = [{"name": step.name, "shape": list(step.shape), "note": step.note} for step in self.steps]
        ways = {
            "whitespace": self.summary("words"),
            "whitespace_without_end": self.summary("words", closing=False),
            "tokenizer": self.summary("pieces"),
        }
        return {"tokens": self.tokens, "words": self.words, "steps": steps, "shapes": ways, **self.answer}


def trace(predictor: Predictor, text: Text) -> Trace:
    """Run one text or pair through the model and record every shape; for several windows those of the first."""
    model, tokenizer, task = predictor.model, predictor.tokenizer, predictor.task
    if not isinstance(task, SequenceTask):
        raise InputError(f"Tensor shapes require a model with one prediction per text; this model is for {task.name}.")
    examples = task.unlabeled(rows_of([text]), tokenizer, predictor.max_length, counts=predictor.counts)
    encoding, *more = _windows(predictor, task, text)
    batch = examples.sequences.batch([0]).to(model.word_embeddings.device)
    with torch.inference_mode():
        encoded = model.encode(batch, hidden_states=True)
        words, vectors = _by_word(text, encoding, encoded.hidden.float().cpu())
        pooled = model.pool(encoded.hidden, batch)[0]  # [hidden]
        logits = model.logits(batch).float().cpu()  # [1, labels]
    states = encoded.hidden_states or ()
    names = ", ".join(task.labels[:8]) or "one number"
    closing = int(bool(encoding.sequence_ids) and encoding.sequence_ids[-1] is None)
    open_words = len(words) - closing
    steps = [
        Step("pieces", (batch.num_tokens,), f"{tokenizer.kind} tokens with special tokens"),
        Step("embeddings", tuple(states[0].shape), "token + position + type, normalized"),
        Step("hidden states", tuple(encoded.hidden.shape), f"after {len(states) - 1} layers, one vector per token"),
        Step(
            "words",
            (len(words),),
            f"split at whitespace, with special tokens; {open_words} without the closing one",
        ),
        Step("word embeddings", tuple(vectors.shape), "the mean of each word's tokens"),
        Step("pooled", tuple(pooled.shape), "the vector of the first token, through dense and tanh"),
        Step("logits", tuple(logits[0].shape), f"one linear layer: {names}"),
    ]
    if not more:
        return Trace(encoding.tokens, words, steps, task.decode(logits)[0], closing)
    steps.append(Step("windows", (len(more) + 1, task.num_labels), "logits of all windows; this is the first"))
    return Trace(encoding.tokens, words, steps, task.predict(model, examples)[0], closing)


def _windows(predictor: Predictor, task: SequenceTask, text: Text) -> list[Encoding]:
    """Return the tokenized windows of a text."""
    if task.long is None:
        return predictor.tokenizer.encode_batch([text], predictor.max_length)
    return text_windows(predictor.tokenizer.encode_batch([text])[0], predictor.max_length, task.long)


def _by_word(text: Text, encoding: Encoding, hidden: Tensor) -> tuple[list[str], Tensor]:
    """Group subword tokens into whitespace-separated words; each special token is a separate word.

    hidden: float [tokens, hidden]. Returns the words with at least one token and their vectors: float [words, hidden].
    """
    words = [list(_WORD.finditer(source)) for source in ((text,) if isinstance(text, str) else text)]
    groups: dict[tuple[int, int], tuple[str, list[int]]] = {}  # (text, first character), or (-1, token) if special
    for index, (number, (start, _)) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True)):
        if number is None:
            groups[-1, index] = (encoding.tokens[index], [index])
            continue
        for found in words[number]:
            if found.start() <= start < found.end():
                groups.setdefault((number, found.start()), (found.group(), []))[1].append(index)
    vectors = [hidden[tokens].mean(dim=0) for _, tokens in groups.values()]
    return [word for word, _ in groups.values()], torch.stack(vectors) if vectors else hidden.new_zeros(
        0, hidden.shape[1]
    )
