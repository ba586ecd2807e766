"""Rows for vectors of sentences, and their packed batches: scored pairs, pairs that belong together, single texts.

Each text of a pair is encoded by itself. It is one sequence, or where long texts are read in windows one or several.
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

from ..core.errors import InputError, RowError, RowErrors
from ..data.batch import Batch, order_by_length
from ..text.cells import number_fault
from ..text.encoding import TextCounts
from ..text.tables import Row, Table, read_texts
from .examples import Examples, tokenize_rows
from .long_examples import LongExamples, portions_by_tokens, window_rows
from .long_texts import LongTexts

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

Span = tuple[float, float] | None
MOST = 1e30  # a score beyond this is a mistake
KINDS = ("scores", "pairs", "texts")
# Labels that say in a word whether two texts belong together, as the well-known data sets write them.
TOGETHER = frozenset("1 1.0 true yes entailment paraphrase duplicate positive".split())  # noqa: SIM905
APART = frozenset("0 0.0 false no contradiction neutral not_entailment negative".split())  # noqa: SIM905


def read_similar(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    span: Span = None,
    skip_bad_rows: bool = False,
) -> Table:
    """The rows of a file: `text`, perhaps `text_pair`, perhaps a score or label; or a text a line (.txt).

    A row whose score is missing, no number, or not within `span` is bad where others have one. Raises RowErrors as
    `read_texts` does.
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
        raise InputError(f"{path} holds no row with a score.")
    return Table(good, table.columns, [*table.skipped, *bad])


def kind_of(rows: Sequence[Row]) -> str:
    """What rows are: "texts" without partners, "pairs" without score or with a label in a word, else "scores"."""
    if not any(row.text_pair is not None for row in rows):
        return "texts"
    labels = {None if row.label is None else row.label.casefold() for row in rows}
    return "pairs" if labels == {None} or labels <= TOGETHER | APART else "scores"


def target_of(row: Row, kind: str, span: Span = None) -> float:
    """The score of a row, or 1.0 for texts that belong together and 0.0 for others. Raises ValueError with why not.

    span: the least and the greatest score (None: any).
    """
    if kind == "scores":
        fault = _fault(row, span)
        if fault:
            raise ValueError(fault)
        return float(row.label or "")
    return 0.0 if row.label is not None and row.label.casefold() in APART else 1.0


def _fault(row: Row, span: Span) -> str | None:
    if row.label is None:
        return "the score is missing"
    return number_fault(row.label, (-MOST, MOST) if span is None else span)


@dataclass(frozen=True)
class PairExamples(Examples):
    """Rows as tokens, the two texts of a pair as sequences of their own.

    texts: the first texts of all rows, then the second ones where rows are pairs, each of one window or several, as
    `input_ids` are; has_pairs: False where rows are single texts; is_scored: whether targets are scores rather than 1
    for pairs that belong together and 0 for others.
    """

    texts: LongExamples = field(default_factory=lambda: LongExamples([]), repr=False)
    has_pairs: bool = False
    is_scored: bool = False

    def __len__(self) -> int:
        return len(self.texts) // self.num_sides

    @property
    def num_sides(self) -> int:
        """Texts of a row."""
        return 2 if self.has_pairs else 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, both texts together: int64 [rows]."""
        found: np.ndarray = self.texts.lengths.reshape(self.num_sides, -1).sum(axis=0)
        return found

    @cached_property
    def twins(self) -> torch.Tensor:
        """A number for each row, the same where the second texts (or single ones) are the same: int64 [rows]."""
        numbers: dict[bytes, int] = {}
        starts = self.texts.starts[-len(self) - 1 :].tolist()
        windows = [np.asarray(ids).tobytes() for ids in self.input_ids[starts[0] :]]
        ends = [start - starts[0] for start in starts]
        texts = [b"|".join(windows[start:end]) for start, end in pairwise(ends)]
        return torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts])

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack all windows of all texts of the rows `indices`, shortest first.

        Labels, in the order of `indices`: "example" int64 [rows], the row; "first" and "second" int64 [rows], which
        texts are its own among what joining their windows gives; "twins" int64 [rows], see `twins`; "sequence" float32
        [rows], its target; and "order" and "windows" as of LongExamples.batch.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        texts = np.concatenate([chosen + side * len(self) for side in range(self.num_sides)])
        order = order_by_length(self.texts.lengths[texts])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        labels = {"example": torch.from_numpy(chosen), "first": torch.from_numpy(place[: len(chosen)])}
        if self.has_pairs:
            labels["second"] = torch.from_numpy(place[len(chosen) :])
        labels["twins"] = self.twins[labels["example"]]
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        packed = self.texts.batch(texts)
        return replace(packed, labels=labels | {name: packed.labels[name] for name in ("order", "windows")})

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Scored rows in portions, as those of LongExamples; rows that are set against each other stay together."""
        if not self.is_scored or not self.has_windows:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    @property
    def has_windows(self) -> bool:
        """Whether a text is more than one window."""
        return len(self.input_ids) > len(self.texts)

    def thinned(self, max_windows: int) -> PairExamples:
        """The same with at most `max_windows` windows of each text, spread evenly from the first to the last."""
        fewer = self.texts.thinned(max_windows)
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
    """Tokenise each text of each row by itself, to sequences of at most `max_length` tokens.

    long: how longer texts are read, None where they are cut. Raises InputError for a row alone among pairs.
    """
    counts = TextCounts() if counts is None else counts
    seconds = [row.text_pair for row in rows if row.text_pair is not None]
    if seconds and len(seconds) != len(rows):
        raise InputError("Some rows are pairs of texts and others single ones: give the one or the other.")
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
