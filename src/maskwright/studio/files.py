"""Uploaded files and samples, as the pages show them: labeled rows, and texts with embeddings."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from ..core import registry, storage
from ..core.errors import InputError, MissingFileError, RowError, RowErrors
from ..http.model_registry import LoadedModel
from ..inference.cluster import Clustering, cluster_vectors
from ..tasks.base import AnyRow, label_rows
from ..tasks.evaluation.scoring import read_to_score
from ..tasks.specs import spec_of
from ..text.readers.tables import Row, read_texts
from ..text.tokenizers.tokenizer import Tokenizer

# -- What pages with a file share: its errors, the samples of the package, and the files that were opened last -------


Content = TypeVar("Content")


class LastOpened(Generic[Content]):
    """The contents of at most `most` files, each as a model reads it."""

    def __init__(self, most: int) -> None:
        self.most = most
        # With the object whose `id` is in the key, so that no other object can have this `id`.
        self._kept: OrderedDict[tuple[Hashable, ...], tuple[Any, Content]] = OrderedDict()

    def get(self, model: Any, key: Hashable, read: Callable[[], Content]) -> Content:
        """Returns the content for a model and a key, read if it is not kept."""
        whole = (id(model), key)
        if whole not in self._kept:
            self._kept[whole] = (model, read())
        self._kept.move_to_end(whole)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return self._kept[whole][1]


@contextmanager
def naming_the_file(path: Path, name: str = "The file") -> Iterator[None]:
    """Errors say `name` for an uploaded file, whose path means nothing to the user."""
    try:
        yield
    except RowErrors as error:
        raise RowErrors([RowError("the file", row.line, row.column, row.reason) for row in error.rows]) from None
    except InputError as error:
        raise InputError(str(error).replace(str(path), name)) from None


def sample(name: str) -> Path:
    """Returns the path of a sample of the package."""
    return Path(str(resources.files(__package__) / "samples" / name))


# -- Uploaded files: limited in size, stored under generated names, and read only by the corpus readers --------------


# Only plain text: a compressed file of a few kilobytes can expand to gigabytes.
ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".conll", ".txt")
FILE_BYTES = 64 << 20
MOST_FILES = 200
SHOWN_ROWS, SHOWN_LABELS, SHOWN_LETTERS = 6, 12, 200
_NAME = re.compile(r"[0-9a-f]{16}\.[a-z]{3,5}")


class Uploads:
    """Stores uploaded files in a directory that is private to its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, data: bytes, ending: str) -> str:
        """Stores a file under a hash of its content. Raises InputError for a wrong extension or an empty file."""
        if ending not in ENDINGS:
            raise InputError(f"Files with the extension '{ending}' are not supported; use {', '.join(ENDINGS)}.")
        if not data.strip():
            raise InputError("The file is empty.")
        name = hashlib.sha256(data).hexdigest()[:16] + ending
        path = self.folder / name
        if not path.exists():
            if self.folder.is_dir() and len(list(self.folder.iterdir())) >= MOST_FILES:
                raise InputError(f"{self.folder} contains {MOST_FILES} files: remove those that you do not need.")
            storage.private_folder(self.folder.parent)
            storage.write_bytes(path, data, private=True)
        return name

    def path(self, name: str) -> Path:
        """Returns the path of a stored file. Raises MissingFileError for an unknown name."""
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_file() or path.is_symlink():
            raise MissingFileError("This file no longer exists: select it again.")
        return path.resolve()

    def read(
        self, name: str, task: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> tuple[list[AnyRow], int]:
        """Reads the examples of a task and counts the skipped rows. Raises RowErrors, InputError."""
        path = self.path(name)
        reader = registry.resolve("task", task)
        with naming_the_file(path, "the file"):
            table = reader.read(path, columns=dict(columns) or None, skip_bad_rows=skip_bad_rows)
        return list(table.rows), table.num_skipped

    def describe(
        self, name: str, task: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> dict[str, Any]:
        """Returns the number of examples, the first examples, and the label counts."""
        rows, skipped = self.read(name, task, columns, skip_bad_rows=skip_bad_rows)
        labels = Counter(label for row in rows for label in _labels(row)) if spec_of(task).has_classes else Counter()
        return {
            "rows": len(rows),
            "skipped": skipped,
            "first": [[_short(cell) for cell in _cells(row)] for row in rows[:SHOWN_ROWS]],
            "labels": [[label, count] for label, count in labels.most_common(SHOWN_LABELS)],
            "num_labels": len(labels),
        }


def _labels(row: AnyRow) -> list[str]:
    tags = getattr(row, "tags", None)
    if tags is not None:
        return [str(tag) for tag in tags]
    label = getattr(row, "label", None)
    if label is None or isinstance(label, float):
        return []
    return [str(one) for one in label] if isinstance(label, (list, tuple, frozenset)) else [str(label)]


def _cells(row: AnyRow) -> list[Any]:
    """Returns the text, second text and label of an example, as far as present, for display."""
    label = getattr(row, "tags", None) or row.label
    shown = " ".join(map(str, label)) if isinstance(label, (list, tuple)) else label
    return [row.text, row.text_pair, shown]


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 1] + "…"


# -- Labeled files of the page Data set: uploaded ones and samples in the package, scored in parts -------------------


PART_SECONDS = 0.6  # of one request: other pages wait no longer than that
PART_ROWS = 32
KEPT_LABELED_FILES = 4
MOST_ROWS = 50_000
SAMPLES = ("messages.csv", "pairs.csv", "names.conll", "words.conll", "questions.csv")


class LabeledFiles:
    """Rows of the files that were read last, so that each request need not read them again."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self._rows = LastOpened[list[AnyRow]](KEPT_LABELED_FILES)

    def path(self, file: str, model: LoadedModel) -> Path | None:
        """Returns the path of an uploaded file, or for "" of the sample whose labels the model predicts, if any."""
        return self.uploads.path(file) if file else sample_for(model)

    def rows(
        self, model: LoadedModel, file: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> list[AnyRow]:
        """Reads the labeled rows to score a model on; [] without a file and a sample. Raises RowErrors, InputError."""

        def read() -> list[AnyRow]:
            path = self.path(file, model)
            return [] if path is None else _read_labeled(model, path, columns, skip_bad_rows)

        return self._rows.get(model, (file, tuple(sorted(columns.items())), skip_bad_rows), read)


def sample_for(model: LoadedModel) -> Path | None:
    """Returns the sample of the package whose labels the model predicts, None if there is none."""
    for name in SAMPLES:
        path = sample(name)
        with suppress(InputError):
            _read_labeled(model, path, {}, False)
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


def _read_labeled(model: LoadedModel, path: Path, columns: Mapping[str, str], skip_bad_rows: bool) -> list[AnyRow]:
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


# -- Texts of the page Projector: an uploaded file or a sample, embedded in parts and kept for maps and neighbors


SAMPLE = "topics.csv"
BLOCK_TEXTS = 64
MOST_AUTOMATIC = 5000  # texts for which the number of clusters is chosen automatically
OTHERWISE_CLUSTERS = 8
KEPT_FILES = 2  # 77 MB each, of 50,000 texts and 384 dimensions


@dataclass
class EmbeddedTexts:
    """Texts with the embeddings of the first ones."""

    rows: Sequence[AnyRow]
    blocks: list[np.ndarray] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts; both of a pair, joined."""
        return [row.text if row.text_pair is None else f"{row.text} {row.text_pair}" for row in self.rows]

    @property
    def num_done(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def vectors(self) -> np.ndarray:
        """All embeddings: float32 [texts, size]. Raises InputError if they are not complete."""
        if self.num_done < len(self.rows):
            raise InputError("The texts are not embedded yet: reload the page.")
        if len(self.blocks) > 1:
            self.blocks = [np.concatenate(self.blocks)]
        return self.blocks[0]

    def clusters(self, number: int = 0) -> Clustering:
        """Clusters all texts. number: of clusters, 0 for the one with the best silhouette (of many texts: 8)."""
        automatic = None if len(self.rows) <= MOST_AUTOMATIC else OTHERWISE_CLUSTERS
        return cluster_vectors(self.vectors, self.texts, number or automatic)

    def embed_more(self, model: LoadedModel) -> None:
        """Embeds the next texts, as many as PART_SECONDS allow and at least one block."""
        encoder, texts = model.encoder(), self.texts
        ends = time.monotonic() + PART_SECONDS
        while self.num_done < len(texts):
            start = self.num_done
            self.blocks.append(encoder.vectors(texts[start : start + BLOCK_TEXTS]))
            if time.monotonic() >= ends:
                break


class TextFiles:
    """The texts that were opened last, with their embeddings, by model and file."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self._kept = LastOpened[EmbeddedTexts](KEPT_FILES)

    def open(
        self, model: LoadedModel, file: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> EmbeddedTexts:
        """Returns the texts of a file, or of the sample for "". Raises RowErrors, InputError."""

        def read() -> EmbeddedTexts:
            return EmbeddedTexts(_read(self.uploads.path(file) if file else sample(SAMPLE), columns, skip_bad_rows))

        return self._kept.get(model, (file, tuple(sorted(columns.items())), skip_bad_rows), read)

    def of_rows(self, model: LoadedModel, rows: Sequence[AnyRow]) -> EmbeddedTexts:
        """Returns the texts of rows that are read already. The same list of rows has the same embeddings."""
        return self._kept.get(model, id(rows), lambda: EmbeddedTexts(rows))  # which keeps the rows, and so their `id`


def _read(path: Path, columns: Mapping[str, str], skip_bad_rows: bool) -> list[Row]:
    with naming_the_file(path):
        rows = read_texts(path, columns=columns or None, skip_bad_rows=skip_bad_rows).rows
    if len(rows) > MOST_ROWS:
        raise InputError(f"The file has {len(rows):,} texts: this page shows at most {MOST_ROWS:,}.")
    return rows
