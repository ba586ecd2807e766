"""Rows for vectors of sentences, and their packed batches: scored pairs, pairs that belong together, single texts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..core.errors import InputError, RowError, RowErrors
from ..data.batch import Batch, order_by_length
from ..text.encoding import TextCounts
from ..text.tables import Row, Table, read_texts
from .examples import Examples, tokenize_rows

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

KINDS = ("scores", "pairs", "texts")
# Labels that say in a word whether two texts belong together, as the well-known data sets write them.
TOGETHER = frozenset("1 1.0 true yes entailment paraphrase duplicate positive".split())  # noqa: SIM905
APART = frozenset("0 0.0 false no contradiction neutral not_entailment negative".split())  # noqa: SIM905


def read_similar(path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False) -> Table:
    """The rows of a file: `text`, perhaps `text_pair`, perhaps a score or label; or a text a line (.txt).

    A row whose score is missing or no number is bad where others have one. Raises RowErrors as `read_texts` does.
    """
    table = read_texts(path, columns=columns, skip_bad_rows=skip_bad_rows)
    if not table.has_pair or kind_of(table.rows) != "scores":
        return table
    bad = [RowError(row.file, row.line, table.columns["label"], why) for row in table.rows if (why := _fault(row))]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in table.rows if not _fault(row)]
    if not good:
        raise InputError(f"{path} holds no row with a score.")
    return Table(good, table.columns, [*table.skipped, *bad])


def kind_of(rows: Sequence[Row]) -> str:
    """What rows are: "texts" without partners, "pairs" without score or with a label in a word, else "scores"."""
    if not any(row.text_pair is not None for row in rows):
        return "texts"
    labels = {None if row.label is None else row.label.casefold() for row in rows}
    return "pairs" if labels == {None} or labels <= TOGETHER | APART else "scores"


def target_of(row: Row, kind: str) -> float:
    """The score of a row, or 1.0 for texts that belong together and 0.0 for others. Raises ValueError with why not."""
    if kind == "scores":
        fault = _fault(row)
        if fault:
            raise ValueError(fault)
        return float(row.label or "")
    return 0.0 if row.label is not None and row.label.casefold() in APART else 1.0


def _fault(row: Row) -> str | None:
    if row.label is None:
        return "the score is missing"
    try:
        value = float(row.label)
    except ValueError:
        return f"'{row.label[:60]}' is not a number"
    return None if math.isfinite(value) and abs(value) < 1e30 else f"'{row.label[:60]}' is not a finite number"


@dataclass(frozen=True)
class PairExamples(Examples):
    """Rows as tokens, the two texts of a pair as sequences of their own.

    second_ids: for each row int32 [tokens], or None where rows are single texts; is_scored: whether targets are scores
    rather than 1 for pairs that belong together and 0 for others.
    """

    second_ids: Sequence[np.ndarray] | None = field(default=None, repr=False)
    is_scored: bool = False

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, both texts together: int64 [rows]."""
        first = np.fromiter(map(len, self.input_ids), dtype=np.int64, count=len(self))
        if self.second_ids is None:
            return first
        return first + np.fromiter(map(len, self.second_ids), dtype=np.int64, count=len(self))

    @cached_property
    def twins(self) -> torch.Tensor:
        """A number for each row, the same where the second texts (or single ones) are the same: int64 [rows]."""
        numbers: dict[bytes, int] = {}
        texts = self.input_ids if self.second_ids is None else self.second_ids
        return torch.tensor([numbers.setdefault(np.asarray(ids).tobytes(), len(numbers)) for ids in texts])

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack all texts of the rows `indices`, shortest first.

        Labels, in the order of `indices`: "example" int64 [rows], the row; "first" and "second" int64 [rows], which
        sequences its texts are; "twins" int64 [rows], see `twins`; "sequence" float32 [rows], its target.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        texts = [self.input_ids[row] for row in chosen]
        if self.second_ids is not None:
            texts += [self.second_ids[row] for row in chosen]
        order = order_by_length([len(ids) for ids in texts])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        labels = {"example": torch.from_numpy(chosen), "first": torch.from_numpy(place[: len(chosen)])}
        if self.second_ids is not None:
            labels["second"] = torch.from_numpy(place[len(chosen) :])
        labels["twins"] = self.twins[labels["example"]]
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        return Batch.from_sequences([texts[index] for index in order], None, labels)


def tokenize_pairs(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    *,
    targets: Sequence[float] | None = None,
    is_scored: bool = False,
    num_skipped: int = 0,
    counts: TextCounts | None = None,
) -> PairExamples:
    """Tokenise each text of each row by itself, to at most `max_length` tokens. Raises InputError for a row alone
    among pairs."""
    counts = TextCounts() if counts is None else counts
    first = tokenize_rows(_texts(rows, [row.text for row in rows]), tokenizer, max_length, counts=counts)
    seconds = [row.text_pair for row in rows if row.text_pair is not None]
    if seconds and len(seconds) != len(rows):
        raise InputError("Some rows are pairs of texts and others single ones: give the one or the other.")
    second_ids = None
    if seconds:
        second_ids = tokenize_rows(_texts(rows, seconds), tokenizer, max_length, counts=counts).input_ids
    gold = None if targets is None else torch.tensor(targets, dtype=torch.float32)
    return PairExamples(first.input_ids, None, gold, rows, counts, num_skipped, second_ids, is_scored)


def _texts(rows: Sequence[Row], texts: Collection[str]) -> list[Row]:
    return [Row(text, None, None, row.line, row.file) for row, text in zip(rows, texts, strict=True)]
