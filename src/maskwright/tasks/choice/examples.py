"""Multiple-choice rows as packed sequences (context, choice), one per choice (Devlin et al. 2019, section 4.4).

All choices of a row are in the same batch, because the softmax runs over them. A batch is sorted by length; its label
"places" maps the choices of each row to sequences. A long context is truncated, or split into windows that each contain
the whole choice, so a choice can have several sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch, order_by_length
from ...text.readers.choices import ChoiceRow
from ...text.readers.tables import Row
from ...text.tokenizers.encoding import TextCounts
from ..rows.examples import TOKENIZE_ROWS, Examples
from ..rows.long_examples import FIRST, LongExamples, portions_by_tokens, window_rows
from ..rows.long_texts import LongTexts

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceExamples(Examples):
    """Rows with `num_choices` choices each.

    `input_ids` has one entry per choice or window, row by row. Everything else refers to rows: `len`, `lengths` (tokens
    of all choices of a row, int64 [rows]), `targets` (correct choice, int64 [rows]) and the indices of `batch`.
    cut_rows: number of rows with a truncated choice; windows: the choices as windows, one "row" of them per choice;
    None if each choice is one sequence.
    """

    num_choices: int = 2
    cut_rows: int = 0
    windows: LongExamples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.input_ids if self.windows is None else self.windows) // self.num_choices

    @property
    def num_truncated(self) -> int:
        """Number of rows with a truncated choice."""
        return self.cut_rows

    @cached_property
    def sequence_lengths(self) -> np.ndarray:
        """Tokens of each choice, over all its windows, with special tokens: int64 [rows * choices]."""
        if self.windows is not None:
            return self.windows.lengths
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self.input_ids))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of all choices of each row: int64 [rows]."""
        return self.sequence_lengths.reshape(-1, self.num_choices).sum(axis=1)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs all choices of the rows `indices`.

        Batch labels: "example" int64 [rows], the rows; "places" int64 [rows, choices], sequence of each choice;
        "sequence" int64 [rows], the correct choice, if the examples have targets. With windows also "order" and
        "windows" (see LongExamples.batch), and "places" refers to the pooled windows.
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

    def groups(self) -> list[Sequence[int]]:
        """As of the windows, if there are any."""
        return super().groups() if self.windows is None else self.windows.groups()

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """With windows, splits a batch into micro-batches; see `portions_by_tokens`."""
        if self.windows is None:
            return super().portions(indices)
        return portions_by_tokens(indices, self.lengths)

    def limit_windows(self, max_windows: int) -> ChoiceExamples:
        """Keeps at most `max_windows` windows of each choice, evenly spaced from the first to the last."""
        if self.windows is None:
            return self
        fewer = self.windows.limit_windows(max_windows)
        return replace(self, input_ids=fewer.input_ids, token_types=fewer.token_types, windows=fewer)


@dataclass
class _RowCounts(TextCounts):
    """Counts that also record whether each text was truncated, and forward everything to `total`."""

    total: TextCounts = field(default_factory=TextCounts)
    was_cut: list[bool] = field(default_factory=list)

    def add(self, tokens: int, cut_tokens: int = 0, unknown_tokens: int = 0, special_tokens: int = 0) -> None:
        """Counts one text."""
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
    """Tokenizes each (context, question and choice) to at most `max_length` tokens, truncating the longer side first.

    counts: accumulates truncated and unknown tokens, per choice; long: window settings for long contexts, None to
    truncate them. Raises InputError unless all rows have the same number of choices.
    """
    sizes = {len(row.choices) for row in rows}
    if len(sizes) > 1:
        raise InputError(f"Rows have {' or '.join(map(str, sorted(sizes)))} choices: all must have the same number.")
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
    """Number of rows with a truncated choice."""
    return int(np.asarray(counts.was_cut, dtype=bool).reshape(-1, num_choices).any(axis=1).sum())
