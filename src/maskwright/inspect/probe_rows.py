"""What a probe is shown: labelled words or texts, and their vectors in every layer of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator
from ..inference.embed import TextEncoder
from ..inference.ready import room_of, tokenizer_of
from ..models.model import Model
from ..tasks.classification import Classification
from ..tasks.tagged_examples import window_sentences
from ..text.tables import Row
from ..text.tagged import Sentence, is_tagged, read_tagged
from ..text.words import split_words
from ..train.layer_lab_features import feature_blocks

Labelled = Sentence | Row
TEST_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Judged:
    """Words or texts with their labels.

    unit: "words" or "texts"; vectors: float32 [layers + 1, things, hidden], the embeddings first; labels: of each;
    types: what each is by its spelling, a word itself, of a text its first word.
    """

    unit: str
    vectors: np.ndarray
    labels: Sequence[str]
    types: Sequence[str]


def read_labelled(
    path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> Sequence[Labelled]:
    """The rows of a file: tagged sentences (CoNLL columns, or JSON lines with tokens and tags), or texts with a label.

    Raises RowErrors and InputError as their readers do.
    """
    if is_tagged(path, columns):
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows).rows
    return Classification.read(path, columns=columns, skip_bad_rows=skip_bad_rows).rows


def split_rows(rows: Sequence[Labelled], seed: int = 0) -> tuple[list[Labelled], list[Labelled]]:
    """Three quarters of the rows to learn from and one to score on, drawn by `seed`, both in their order."""
    if len(rows) < 2:
        raise InputError("A probe needs two rows or more, to learn from one and to be scored on another.")
    order = generator(seed, "dev rows of a probe").permutation(len(rows))
    held = set(order[: max(round(len(rows) * TEST_SHARE), 1)].tolist())
    return [row for place, row in enumerate(rows) if place not in held], [rows[place] for place in sorted(held)]


def judged(model: Model, rows: Sequence[Labelled], pooling: str, max_length: int | None, most: int) -> Judged:
    """The first rows, with `most` words or texts at least where there are so many, as a model sees them.

    Raises InputError where there is no row, a row has no label, or rows are of two kinds.
    """
    sentences = [row for row in rows if isinstance(row, Sentence)]
    texts = [row for row in rows if isinstance(row, Row)]
    if not rows or (sentences and texts):
        raise InputError("A probe reads tagged sentences or labelled texts, one or the other, and at least one row.")
    for row in rows:
        if row.label is None:
            raise InputError(f"{row.file}, line {row.line:,}: the row has no label, so nothing can be learnt from it.")
    return _words(model, sentences, max_length, most) if sentences else _texts(model, texts[:most], pooling, max_length)


def _words(model: Model, rows: Sequence[Sentence], max_length: int | None, most: int) -> Judged:
    words_before = np.cumsum([0, *(len(row) for row in rows)])
    rows = rows[: max(int(np.searchsorted(words_before, most)), 1)]
    examples = window_sentences(rows, tokenizer_of(model), room_of(model, max_length))
    vectors = np.concatenate([block.numpy() for block in feature_blocks(model, [examples])], axis=1)
    labels = [tag for row in rows for tag in row.tags or ()]
    return Judged("words", vectors, labels, [word for row in rows for word in row.words])


def _texts(model: Model, rows: Sequence[Row], pooling: str, max_length: int | None) -> Judged:
    layers = list(range(model.config.num_hidden_layers + 1))
    encoder = TextEncoder(model, layers, pooling, max_length=max_length)
    texts = [row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows]
    vectors = encoder.vectors(texts).reshape(len(rows), len(layers), -1).transpose(1, 0, 2)  # [layers, texts, hidden]
    return Judged("texts", vectors, [str(row.label) for row in rows], [_first_word(row.text) for row in rows])


def _first_word(text: str) -> str:
    start, end = next(iter(split_words(text)), (0, 0))
    return text[start:end]
