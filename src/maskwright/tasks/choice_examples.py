"""Multiple-choice rows as packed sequences: one for each choice, context before it (Devlin et al. 2019, section 4.4).

A row's choices always travel in one batch, because the softmax runs over them. Inside a batch the sequences stand
shortest first, whatever row they are of; `places` says where each choice of each row went. A context that does not fit
is cut, or read in windows, each of them with the whole choice: then a choice is several sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch, order_by_length
from ..text.choices import ChoiceRow
from ..text.encoding import TextCounts
from ..text.tables import Row
from .examples import TOKENIZE_ROWS, Examples
from .long_examples import FIRST, LongExamples, portions_by_tokens, window_rows
from .long_texts import LongTexts

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceExamples(Examples):
    """Rows with `num_choices` choices each.

    `input_ids` has one entry for each choice, or window of one, row by row. All else counts rows: `len`, `lengths`
    (tokens of all choices of a row, int64 [rows]), `targets` (int64 [rows], the right choice), and the indices that
    `batch` takes. cut_rows: how many have a choice that was cut; windows: the choices as windows, a "row" of theirs
    being a choice, None where each is one sequence.
    """

    num_choices: int = 2
    cut_rows: int = 0
    windows: LongExamples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.input_ids if self.windows is None else self.windows) // self.num_choices

    @property
    def num_truncated(self) -> int:
        """Rows of which some choice was cut to the maximum length."""
        return self.cut_rows

    @cached_property
    def sequence_lengths(self) -> np.ndarray:
        """Tokens of each choice, of all its windows, specials included: int64 [rows * choices]."""
        if self.windows is not None:
            return self.windows.lengths
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self.input_ids))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of all choices of each row: int64 [rows]."""
        return self.sequence_lengths.reshape(-1, self.num_choices).sum(axis=1)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack all choices of the rows `indices`.

        Labels: "example" int64 [rows], the rows; "places" int64 [rows, choices], the sequence that each choice is;
        "sequence" int64 [rows], the right choice, where the examples have targets. With windows "order" and "windows"
        too, as of LongExamples.batch, and `places` are among what pooling them gives.
        """
        rows = np.asarray(indices, dtype=np.int64)
        choices = (rows[:, None] * self.num_choices + np.arange(self.num_choices)).ravel()  # [rows * choices]
        order = order_by_length(self.sequence_lengths[choices])
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        labels = {
            "example": torch.from_numpy(rows),
            "places": torch.from_numpy(places.reshape(-1, self.num_choices)),
        }
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        if self.windows is not None:
            packed = self.windows.batch(choices)
            return replace(packed, labels=labels | {name: packed.labels[name] for name in ("order", "windows")})
        chosen = choices[order]
        types = None if self.token_types is None else [self.token_types[index] for index in chosen]
        return Batch.from_sequences([self.input_ids[index] for index in chosen], types, labels)

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """With windows, rows in portions of at most TRAIN_TOKENS tokens (a longer row stands alone)."""
        if self.windows is None:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    def thinned(self, max_windows: int) -> ChoiceExamples:
        """The same with at most `max_windows` windows of each choice, spread evenly from the first to the last."""
        if self.windows is None:
            return self
        fewer = self.windows.thinned(max_windows)
        return replace(self, input_ids=fewer.input_ids, token_types=fewer.token_types, windows=fewer)


@dataclass
class _RowCounts(TextCounts):
    """Counts that also remember of each text whether it was cut, and pass all on to `total`."""

    total: TextCounts = field(default_factory=TextCounts)
    was_cut: list[bool] = field(default_factory=list)

    def add(self, tokens: int, cut_tokens: int = 0, unknown_tokens: int = 0, special_tokens: int = 0) -> None:
        """Count one text."""
        self.was_cut.append(cut_tokens > 0)
        self.total.add(tokens, cut_tokens, unknown_tokens, special_tokens)


def tokenize_choices(
    rows: Sequence[ChoiceRow],
    tokenizer: Tokenizer,
    max_length: int | None,
    targets: Tensor | None = None,
    *,
    counts: TextCounts | None = None,
    num_skipped: int = 0,
    long: LongTexts | None = None,
) -> ChoiceExamples:
    """Tokenise each (context, question and choice), at most `max_length` tokens each, cutting the longer side first.

    counts: adds up what was cut or unknown, choice by choice; long: how contexts are read that do not fit, None where
    they are cut. Raises InputError unless all rows have as many choices.
    """
    sizes = {len(row.choices) for row in rows}
    if len(sizes) > 1:
        raise InputError(f"Rows have {' or '.join(map(str, sorted(sizes)))} choices: all must have as many.")
    counts = TextCounts() if counts is None else counts
    own = _RowCounts(total=counts)
    num_choices = sizes.pop() if sizes else 2
    if long is not None:
        pairs = [Row(*pair, None, row.line, row.file) for row in rows for pair in row.pairs()]
        windows = window_rows(pairs, tokenizer, max_length, long, counts=own, side=FIRST)
        ids, types = windows.input_ids, windows.token_types
        cut = _cut_rows(own, num_choices)
        return ChoiceExamples(
            ids, types, targets, rows, counts, num_skipped, num_choices=num_choices, cut_rows=cut, windows=windows
        )
    input_ids: list[np.ndarray] = []
    token_types: list[np.ndarray] = []
    for start in range(0, len(rows), TOKENIZE_ROWS):
        texts = [pair for row in rows[start : start + TOKENIZE_ROWS] for pair in row.pairs()]
        new_ids, new_types = tokenizer.encode_ids(texts, max_length, counts=own)
        input_ids += [np.asarray(row, dtype=np.int32) for row in new_ids]
        token_types += [np.asarray(row, dtype=np.int8) for row in new_types]
    cut = _cut_rows(own, num_choices)
    return ChoiceExamples(
        input_ids, token_types, targets, rows, counts, num_skipped, num_choices=num_choices, cut_rows=cut
    )


def _cut_rows(counts: _RowCounts, num_choices: int) -> int:
    """Rows of which some choice was cut."""
    return int(np.asarray(counts.was_cut, dtype=bool).reshape(-1, num_choices).any(axis=1).sum())
