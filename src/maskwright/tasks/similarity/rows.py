"""Rows for sentence-embedding training as packed batches: scored pairs, positive pairs, or single texts.

Each text of a pair is encoded separately, as one sequence or as several windows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ...core.errors import InputError, RowError, RowErrors
from ...data.batch import Batch, order_by_length
from ...text.formats.cells import number_error
from ...text.readers.tables import Row, Table, read_texts
from ...text.tokenizers.encoding import TextCounts
from ..rows.examples import Examples, tokenize_rows
from ..rows.long_examples import LongExamples, portions_by_tokens, window_rows
from ..rows.long_texts import LongTexts
from ..rows.relevant import APART, TOGETHER, plain_name

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer

Span = tuple[float, float] | None
MOST = 1e30  # a larger score is an error
KINDS = ("scores", "pairs", "texts")


def read_similar(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    span: Span = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Reads rows with `text` and optionally `text_pair` and a score or label; or one text per line (.txt).

    If the file has scores, a score that is missing, not a number, or not within `span` is an error. Raises RowErrors
    like `read_texts`.
    """
    table = read_texts(path, columns=columns, skip_bad_rows=skip_bad_rows)
    if not table.has_pair or kind_of(table.rows) != "scores":
        return table
    column = table.columns["label"]
    bad = [RowError(row.file, row.line, column, why) for row in table.rows if (why := _fault(row, span))]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in table.rows if not _fault(row, span)]
    if not good:
        raise InputError(f"{path} contains no row with a score.")
    return Table(good, table.columns, [*table.skipped, *bad], groups=table.groups)


def kind_of(rows: Sequence[Row]) -> str:
    """Kind of rows: "texts" without a pair, "pairs" without score or with positive/negative labels, else "scores"."""
    if not any(row.text_pair is not None for row in rows):
        return "texts"
    labels = {None if row.label is None else plain_name(row.label) for row in rows}
    return "pairs" if labels == {None} or labels <= TOGETHER | APART else "scores"


def target_of(row: Row, kind: str, span: Span = None) -> float:
    """The score of a row, or 1.0 for a positive and 0.0 for a negative pair. Raises ValueError with the reason.

    span: smallest and largest valid score (default: any).
    """
    if kind == "scores":
        fault = _fault(row, span)
        if fault:
            raise ValueError(fault)
        return float(row.label or "")
    return 0.0 if row.label is not None and plain_name(row.label) in APART else 1.0


def _fault(row: Row, span: Span) -> str | None:
    if row.label is None:
        return "the score is missing"
    return number_error(row.label, (-MOST, MOST) if span is None else span)


@dataclass(frozen=True)
class PairExamples(Examples):
    """Tokenized rows; the two texts of a pair are separate sequences.

    texts: first texts of all rows, then second texts if rows are pairs, each with one or more windows in the order of
    `input_ids`; has_pairs: False for single texts; is_scored: whether targets are scores, not 1 (positive pair) or 0
    (negative pair).
    """

    texts: LongExamples = field(default_factory=lambda: LongExamples([]), repr=False)
    has_pairs: bool = False
    is_scored: bool = False

    def __len__(self) -> int:
        return len(self.texts) // self.num_sides

    @property
    def num_sides(self) -> int:
        """Number of texts per row."""
        return 2 if self.has_pairs else 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Total tokens of the texts of each row: int64 [rows]."""
        found: np.ndarray = self.texts.lengths.reshape(self.num_sides, -1).sum(axis=0)
        return found

    @cached_property
    def duplicate_groups(self) -> torch.Tensor:
        """Group number of each row; rows with the same second (or single) text share one: int64 [rows]."""
        numbers: dict[bytes, int] = {}
        starts = self.texts.starts[-len(self) - 1 :].tolist()
        windows = [np.asarray(ids).tobytes() for ids in self.input_ids[starts[0] :]]
        ends = [start - starts[0] for start in starts]
        texts = [b"|".join(windows[start:end]) for start, end in pairwise(ends)]
        return torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts])

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs all windows of all texts of the rows `indices`, shortest first.

        Batch labels, in the order of `indices`: "example" int64 [rows], the row; "first" and "second" int64 [rows],
        indices of its texts after pooling windows; "twins" int64 [rows], see `duplicate_groups`; "sequence" float32
        [rows], its target; "order" and "windows", see LongExamples.batch.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        texts = np.concatenate([chosen + side * len(self) for side in range(self.num_sides)])
        order = order_by_length(self.texts.lengths[texts])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        labels = {"example": torch.from_numpy(chosen), "first": torch.from_numpy(place[: len(chosen)])}
        if self.has_pairs:
            labels["second"] = torch.from_numpy(place[len(chosen) :])
        labels["twins"] = self.duplicate_groups[labels["example"]]
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        packed = self.texts.batch(texts)
        return replace(packed, labels=labels | {name: packed.labels[name] for name in ("order", "windows")})

    def groups(self) -> list[Sequence[int]]:
        """As of the texts."""
        return self.texts.groups()

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Splits batches of scored rows into micro-batches; rows with in-batch negatives stay together."""
        if not self.is_scored or not self.has_windows:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    @property
    def has_windows(self) -> bool:
        """Whether any text has more than one window."""
        return len(self.input_ids) > len(self.texts)

    def limit_windows(self, max_windows: int) -> PairExamples:
        """Keeps at most `max_windows` windows of each text, evenly spaced from the first to the last."""
        fewer = self.texts.limit_windows(max_windows)
        return replace(self, texts=fewer, input_ids=fewer.input_ids)


def tokenize_pairs(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    *,
    targets: Sequence[float] | None = None,
    is_scored: bool = False,
    num_skipped: int = 0,
    counts: TextCounts | None = None,
    long: LongTexts | None = None,
) -> PairExamples:
    """Tokenizes each text of each row separately, to sequences of at most `max_length` tokens.

    long: window settings for long texts, None to truncate them. Raises InputError for pairs mixed with single texts.
    """
    counts = TextCounts() if counts is None else counts
    seconds = [row.text_pair for row in rows if row.text_pair is not None]
    if seconds and len(seconds) != len(rows):
        raise InputError("Some rows are pairs and others single texts: pass only pairs or only single texts.")
    every = [*_texts(rows, [row.text for row in rows]), *_texts(rows if seconds else [], seconds)]
    if long is None:
        ids = tokenize_rows(every, tokenizer, max_length, counts=counts).input_ids
        texts = LongExamples(ids, starts=np.arange(len(ids) + 1))
    else:
        texts = window_rows(every, tokenizer, max_length, long, counts=counts)
    gold = None if targets is None else torch.tensor(targets, dtype=torch.float32)
    return PairExamples(texts.input_ids, None, gold, rows, counts, num_skipped, texts, bool(seconds), is_scored)


def _texts(rows: Sequence[Row], texts: Collection[str]) -> list[Row]:
    return [Row(text, None, None, row.line, row.file) for row, text in zip(rows, texts, strict=True)]
