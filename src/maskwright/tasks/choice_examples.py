"""Multiple-choice rows as packed sequences: one for each choice, context before it (Devlin et al. 2019, section 4.4).

A row's choices always travel in one batch, because the softmax runs over them. Inside a batch the sequences stand
shortest first, whatever row they are of; `places` says where each choice of each row went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch, order_by_length
from ..text.choices import ChoiceRow
from ..text.encoding import TextCounts
from .examples import TOKENIZE_ROWS, Examples

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChoiceExamples(Examples):
    """Rows with `num_choices` choices each.

    `input_ids` has one entry for each choice, row by row. All else counts rows: `len`, `lengths` (tokens of all choices
    of a row, int64 [rows]), `targets` (int64 [rows], the right choice), and the indices that `batch` takes. cut_rows:
    how many have a choice that was cut.
    """

    num_choices: int = 2
    cut_rows: int = 0

    def __len__(self) -> int:
        return len(self.input_ids) // self.num_choices

    @property
    def num_truncated(self) -> int:
        """Rows of which some choice was cut to the maximum length."""
        return self.cut_rows

    @cached_property
    def sequence_lengths(self) -> np.ndarray:
        """Tokens of each choice, specials included: int64 [rows * choices]."""
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self.input_ids))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of all choices of each row: int64 [rows]."""
        return self.sequence_lengths.reshape(-1, self.num_choices).sum(axis=1)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack all choices of the rows `indices`.

        Labels: "example" int64 [rows], the rows; "places" int64 [rows, choices], the sequence that each choice is;
        "sequence" int64 [rows], the right choice, where the examples have targets.
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
        chosen = choices[order]
        types = None if self.token_types is None else [self.token_types[index] for index in chosen]
        return Batch.from_sequences([self.input_ids[index] for index in chosen], types, labels)


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
) -> ChoiceExamples:
    """Tokenise each (context and question, choice), at most `max_length` tokens each, cutting the longer side first.

    counts: adds up what was cut or unknown, choice by choice. Raises InputError unless all rows have as many choices.
    """
    sizes = {len(row.choices) for row in rows}
    if len(sizes) > 1:
        raise InputError(f"Rows have {' or '.join(map(str, sorted(sizes)))} choices: all must have as many.")
    counts = TextCounts() if counts is None else counts
    own = _RowCounts(total=counts)
    num_choices = sizes.pop() if sizes else 2
    input_ids: list[np.ndarray] = []
    token_types: list[np.ndarray] = []
    for start in range(0, len(rows), TOKENIZE_ROWS):
        pairs = [pair for row in rows[start : start + TOKENIZE_ROWS] for pair in row.pairs()]
        ids, types = tokenizer.encode_ids(pairs, max_length, counts=own)
        input_ids += [np.asarray(row, dtype=np.int32) for row in ids]
        token_types += [np.asarray(row, dtype=np.int8) for row in types]
    cut = np.asarray(own.was_cut, dtype=bool).reshape(-1, num_choices).any(axis=1)  # [rows]
    return ChoiceExamples(
        input_ids, token_types, targets, rows, counts, num_skipped, num_choices=num_choices, cut_rows=int(cut.sum())
    )
