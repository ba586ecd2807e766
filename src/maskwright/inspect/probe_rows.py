"""Labeled words or texts for probing, with their embeddings in every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..inference.embed import TextEncoder
from ..inference.layer_features import feature_blocks
from ..inference.ready import room_of
from ..models.model import Model, tokenizer_of
from ..tasks.classification.task import Classification
from ..tasks.rows.split import hold_out
from ..tasks.tagging.examples import window_sentences
from ..text.readers.tables import Row
from ..text.readers.tagged import Sentence, is_tagged, read_tagged
from ..text.words import split_words

Labeled = Sentence | Row
TEST_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class LabeledVectors:
    """Embeddings of labeled words or texts.

    unit: "words" or "texts"; vectors: embedding layer first, float32 [layers + 1, examples, hidden]; types: the word,
    or the first word of a text.
    """

    unit: str
    vectors: np.ndarray
    labels: Sequence[str]
    types: Sequence[str]


def read_labeled(
    path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> Sequence[Labeled]:
    """Read tagged sentences (CoNLL columns, or JSON lines with tokens and tags) or labeled texts.

    Raises RowErrors and InputError as the readers do.
    """
    if is_tagged(path, columns):
        return read_tagged(path, columns=columns, skip_bad_rows=skip_bad_rows).rows
    return Classification.read(path, columns=columns, skip_bad_rows=skip_bad_rows).rows


def split_rows(rows: Sequence[Labeled], seed: int = 0) -> tuple[list[Labeled], list[Labeled]]:
    """Split rows into three quarters for training and one for evaluation (`tasks.rows.split`), both in order."""
    if len(rows) < 2:
        raise InputError("A probe requires at least two rows, one for training and one for evaluation.")
    labels = [set(row.label or ()) if isinstance(row, Sentence) else (str(row.label),) for row in rows]
    held = hold_out(labels, [(row.text, row.text_pair) for row in rows], TEST_SHARE, seed)
    return [row for index, row in enumerate(rows) if index not in held], [rows[index] for index in sorted(held)]


def embed_labeled(
    model: Model, rows: Sequence[Labeled], pooling: str, max_length: int | None, most: int
) -> LabeledVectors:
    """Embed the first rows, up to about `most` words or texts.

    Raises InputError for no rows, rows without a label, or rows of both kinds.
    """
    sentences = [row for row in rows if isinstance(row, Sentence)]
    texts = [row for row in rows if isinstance(row, Row)]
    if not rows or (sentences and texts):
        raise InputError("A probe requires at least one row, and either tagged sentences or labeled texts.")
    for row in rows:
        if row.label is None:
            raise InputError(f"{row.file}, line {row.line:,}: the row has no label.")
    return _words(model, sentences, max_length, most) if sentences else _texts(model, texts[:most], pooling, max_length)


def _words(model: Model, rows: Sequence[Sentence], max_length: int | None, most: int) -> LabeledVectors:
    words_before = np.cumsum([0, *(len(row) for row in rows)])
    rows = rows[: max(int(np.searchsorted(words_before, most)), 1)]
    examples = window_sentences(rows, tokenizer_of(model), room_of(model, max_length))
    vectors = np.concatenate([block.numpy() for block in feature_blocks(model, [examples])], axis=1)
    labels = [tag for row in rows for tag in row.tags or ()]
    return LabeledVectors("words", vectors, labels, [word for row in rows for word in row.words])


def _texts(model: Model, rows: Sequence[Row], pooling: str, max_length: int | None) -> LabeledVectors:
    layers = list(range(model.config.num_hidden_layers + 1))
    encoder = TextEncoder(model, layers, pooling, max_length=max_length)
    texts = [row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows]
    vectors = encoder.vectors(texts).reshape(len(rows), len(layers), -1).transpose(1, 0, 2)  # [layers, texts, hidden]
    return LabeledVectors("texts", vectors, [str(row.label) for row in rows], [_first_word(row.text) for row in rows])


def _first_word(text: str) -> str:
    start, end = next(iter(split_words(text)), (0, 0))
    return text[start:end]
