"""Labeled files of the page Data set: uploaded ones and samples in the package, scored in parts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..tasks.base import AnyRow
from ..tasks.evaluation.scoring import read_to_score
from ..tasks.table import label_rows
from .opened_files import LastOpened, naming_the_file, sample
from .uploads import Uploads

if TYPE_CHECKING:
    from ..http.model_registry import LoadedModel
    from ..text.tokenizers.tokenizer import Tokenizer

PART_SECONDS = 0.6  # of one request: other pages wait no longer than that
PART_ROWS = 32
KEPT_FILES = 4
MOST_ROWS = 50_000
SAMPLES = ("messages.csv", "pairs.csv", "names.conll", "words.conll", "questions.csv")


class LabeledFiles:
    """Rows of the files that were read last, so that each request need not read them again."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self._rows = LastOpened[list[AnyRow]](KEPT_FILES)

    def path(self, file: str, model: LoadedModel) -> Path | None:
        """Returns the path of an uploaded file, or for "" of the sample whose labels the model predicts, if any."""
        return self.uploads.path(file) if file else sample_for(model)

    def rows(
        self, model: LoadedModel, file: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> list[AnyRow]:
        """Reads the labeled rows to score a model on; [] without a file and a sample. Raises RowErrors, InputError."""

        def read() -> list[AnyRow]:
            path = self.path(file, model)
            return [] if path is None else _read(model, path, columns, skip_bad_rows)

        return self._rows.get(model, (file, tuple(sorted(columns.items())), skip_bad_rows), read)


def sample_for(model: LoadedModel) -> Path | None:
    """Returns the sample of the package whose labels the model predicts, None if there is none."""
    for name in SAMPLES:
        path = sample(name)
        with suppress(InputError):
            _read(model, path, {}, False)
            return path
    return None


def score_rows(model: LoadedModel, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    """Predicts the first rows, as many as PART_SECONDS allow and at least one block, and compares them with the labels.

    Returns for each: line, text, pair, gold, predicted, score, right, loss, pairs (gold and predicted classes), words,
    tokens, and split (fraction of words that are unknown or several tokens).
    """
    found: list[dict[str, Any]] = []
    ends = time.monotonic() + PART_SECONDS
    for start in range(0, len(rows), PART_ROWS):
        found += _scored(model, rows[start : start + PART_ROWS])
        if time.monotonic() >= ends:
            break
    return found


def _read(model: LoadedModel, path: Path, columns: Mapping[str, str], skip_bad_rows: bool) -> list[AnyRow]:
    predictor = model.predictor
    task = predictor.task
    with naming_the_file(path):
        rows = list(read_to_score(task, path, model.name, columns=columns, skip_bad_rows=skip_bad_rows).rows)
        if len(rows) > MOST_ROWS:
            raise InputError(f"{path} has {len(rows):,} rows: this page shows at most {MOST_ROWS:,}.")
        # Finds all labels that the model does not know before the first prediction.
        return list(task.examples(rows, predictor.tokenizer, predictor.max_length, skip_bad_rows=skip_bad_rows).rows)


def _scored(model: LoadedModel, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    predictor = model.predictor
    task = predictor.task
    examples = task.examples(rows, predictor.tokenizer, predictor.max_length)
    logits = task.logits(model.model, examples)
    losses, answers = task.losses(logits, examples).tolist(), task.answers(logits, examples)
    found = []
    for index, (row, answer) in enumerate(zip(examples.rows, answers, strict=True)):
        shown = label_rows(answer)[0]
        tokens, split = _vocabulary(predictor.tokenizer, row)
        found.append(
            {
                "line": row.line,
                "text": row.text,
                "pair": row.text_pair,
                "gold": row.label if isinstance(row.label, str) else "",
                "predicted": shown.result,
                "score": shown.score,
                "right": task.is_right(examples, index, answer),
                "loss": losses[index],
                "pairs": task.class_pairs(examples, index, answer),
                "words": list(getattr(row, "words", ())),
                "tokens": tokens,
                "split": split,
            }
        )
    return found


def _vocabulary(tokenizer: Tokenizer, row: AnyRow) -> tuple[int, float]:
    """Returns the number of tokens, and the fraction of words that are unknown or several tokens."""
    tokens = words = split = 0
    for ids in tokenizer.encode_plain([text for text in (row.text, row.text_pair) if text]):
        own = np.asarray(ids, dtype=np.int64)
        starts = np.flatnonzero(tokenizer.word_starts(own))
        lengths = np.diff(np.append(starts, len(own)))
        split += int(((lengths > 1) | (own[starts] == tokenizer.unk_id)).sum())
        tokens, words = tokens + len(own), words + len(starts)
    return tokens, split / max(words, 1)
