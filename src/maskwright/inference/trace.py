"""The shapes along the way of one text through a fine-tuned model: tokens x hidden, hidden, labels.

A text has two counts: the pieces of its tokenizer, [CLS] and [SEP] included, which the encoder sees; and the words
between white space, each shown by the mean of its pieces' vectors. Both are followed, so every shape has its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from ..tasks.examples import rows_of
from ..tasks.long_examples import text_windows
from ..tasks.sequence import SequenceTask
from ..text.encoding import Encoding
from ..text.inputs import Text
from .predict import Predictor

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Step:
    """One tensor on the way: its name, its shape, and what it is."""

    name: str
    shape: tuple[int, ...]
    note: str

    @property
    def size(self) -> str:
        """The shape in figures: 16x768."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class Trace:
    """tokens: the pieces that the encoder saw; words: those between white space; answer: as `task.decode` words it."""

    tokens: list[str]
    words: list[str]
    steps: list[Step]
    answer: dict[str, Any]

    def summary(self, count: str = "words") -> str:
        """The way in one line, counted in "words" or "pieces": 16x768 -> 768 -> 3."""
        start = "word vectors" if count == "words" else "hidden states"
        shown = (start, "pooled", "logits")
        return " -> ".join(step.size for step in self.steps if step.name in shown)

    def to_json(self) -> dict[str, Any]:
        """The trace as plain values."""
        steps = [{"name": step.name, "shape": list(step.shape), "note": step.note} for step in self.steps]
        ways = {"whitespace": self.summary("words"), "tokenizer": self.summary("pieces")}
        return {"tokens": self.tokens, "words": self.words, "steps": steps, "shapes": ways, **self.answer}


def trace(predictor: Predictor, text: Text) -> Trace:
    """Run one text or pair through the model and note every shape, of a text of several windows those of the first."""
    model, tokenizer, task = predictor.model, predictor.tokenizer, predictor.task
    if not isinstance(task, SequenceTask):
        raise InputError(f"The way of a text can be shown where it gets one answer; this model does {task.name}.")
    examples = task.unlabelled(rows_of([text]), tokenizer, predictor.max_length, counts=predictor.counts)
    encoding, *more = _windows(predictor, task, text)
    batch = examples.sequences.batch([0]).to(model.word_embeddings.device)
    with torch.inference_mode():
        encoded = model.encode(batch, hidden_states=True)
        words, vectors = _by_word(text, encoding, encoded.hidden.float().cpu())
        pooled = model.pool(encoded.hidden, batch)[0]  # [hidden]
        logits = model.logits(batch).float().cpu()  # [1, labels]
    states = encoded.hidden_states or ()
    names = ", ".join(task.labels[:8]) or "one number"
    steps = [
        Step("pieces", (batch.num_tokens,), f"{tokenizer.kind} pieces with the special tokens"),
        Step("embeddings", tuple(states[0].shape), "token + position + type, normalised"),
        Step("hidden states", tuple(encoded.hidden.shape), f"after {len(states) - 1} layers, a vector for each piece"),
        Step("words", (len(words),), "split at white space"),
        Step("word vectors", tuple(vectors.shape), "the mean of each word's pieces"),
        Step("pooled", tuple(pooled.shape), "the vector of the first piece, through dense and tanh"),
        Step("logits", tuple(logits[0].shape), f"one linear layer: {names}"),
    ]
    if not more:
        return Trace(encoding.tokens, words, steps, task.decode(logits)[0])
    steps.append(Step("windows", (len(more) + 1, task.num_labels), "logits of all windows, of which this is the first"))
    return Trace(encoding.tokens, words, steps, task.predict(model, examples)[0])


def _windows(predictor: Predictor, task: SequenceTask, text: Text) -> list[Encoding]:
    """The sequences that a text becomes."""
    if task.long is None:
        return predictor.tokenizer.encode_batch([text], predictor.max_length)
    return text_windows(predictor.tokenizer.encode_batch([text])[0], predictor.max_length, task.long)


def _by_word(text: Text, encoding: Encoding, hidden: Tensor) -> tuple[list[str], Tensor]:
    """The words between white space that have a piece, and their vectors: float [words, hidden].

    hidden: float [tokens, hidden].
    """
    words, vectors = [], []
    for number, source in enumerate((text,) if isinstance(text, str) else text):
        starts = [
            (index, start)
            for index, (start, _) in enumerate(encoding.offsets)
            if encoding.sequence_ids[index] == number
        ]
        for found in _WORD.finditer(source):
            pieces = [index for index, start in starts if found.start() <= start < found.end()]
            if pieces:
                words.append(found.group())
                vectors.append(hidden[pieces].mean(dim=0))
    return words, torch.stack(vectors) if vectors else hidden.new_zeros(0, hidden.shape[1])
