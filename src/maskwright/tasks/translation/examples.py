"""Tokenized sources and targets, packed for teacher forcing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from ...core.errors import InputError
from ...data.batch import Batch
from ...text.tokenizers.encoding import TextCounts
from ...text.tokenizers.tokenizer import Tokenizer
from ..rows.examples import TOKENIZE_ROWS, Examples


@dataclass(frozen=True)
class TranslationExamples(Examples):
    """Rows of an encoder-decoder.

    input_ids: the sources; targets: number of target tokens including the end token, int64 [rows]; target_ids: for each
    row int32 [tokens + 1], beginning with the start token; is_too_long: bool [rows], whether a side was truncated.
    """

    target_ids: Sequence[np.ndarray] = field(default=(), repr=False)
    is_too_long: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool), repr=False)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, source and target: int64 [rows]."""
        if self.targets is None:
            return self.source_lengths
        return self.source_lengths + self.targets.numpy()

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """Tokens of each source: int64 [rows]."""
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self))

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs the sources of rows, shortest first, and their targets in the same order as `target`.

        Batch labels: "example", see Examples; "words", the next token after each target token, int64 [target tokens];
        "owner", its row, int64 [target tokens].
        """
        chosen = np.asarray(indices, dtype=np.int64)
        if self.targets is None:
            return super().batch(chosen)
        others = self.targets.numpy()
        chosen = chosen[np.lexsort((others[chosen], self.source_lengths[chosen]))]
        targets = [self.target_ids[row] for row in chosen]
        labels = {
            "example": torch.from_numpy(chosen),
            "words": torch.from_numpy(np.concatenate([ids[1:] for ids in targets]).astype(np.int64)),
            "owner": torch.arange(len(chosen)).repeat_interleave(self.targets[torch.from_numpy(chosen)]),
        }
        batch = Batch.from_sequences([self.input_ids[row] for row in chosen], None, labels)
        return replace(batch, target=Batch.from_sequences([ids[:-1] for ids in targets]))

    def fitting(self) -> TranslationExamples:
        """The pairs without truncation: truncated targets would teach the model to stop early."""
        kept = np.flatnonzero(~self.is_too_long).tolist()
        if not kept or self.targets is None:
            raise InputError("Every pair is longer than max_length: raise it (--max-length).")
        return replace(
            self,
            input_ids=[self.input_ids[row] for row in kept],
            target_ids=[self.target_ids[row] for row in kept],
            targets=self.targets[torch.tensor(kept)],
            rows=[self.rows[row] for row in kept],
            is_too_long=self.is_too_long[kept],
        )


def source_ids(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int | None, counts: TextCounts
) -> list[np.ndarray]:
    """Tokenizes texts with special tokens, ending with the end token: for each text int32 [tokens]."""
    found = []
    for start in range(0, len(texts), TOKENIZE_ROWS):
        for ids in tokenizer.encode_ids(texts[start : start + TOKENIZE_ROWS])[0]:
            end = end_id(tokenizer)
            whole = ids if ids[-1:] == [end] else [*ids, end]
            kept = whole if max_length is None or len(whole) <= max_length else [*whole[: max_length - 1], end]
            unknown = 0 if tokenizer.unk_id is None else kept.count(tokenizer.unk_id)
            counts.add(len(kept), len(whole) - len(kept), unknown, 1)
            found.append(np.array(kept, dtype=np.int32))
    return found


def target_ids(
    texts: Sequence[str], tokenizer: Tokenizer, start: int, max_length: int | None, counts: TextCounts
) -> list[np.ndarray]:
    """Tokenizes targets, beginning with the start token: for each text int32 [tokens + 1]."""
    whole = source_ids(texts, tokenizer, None, TextCounts())
    found = []
    for ids in whole:
        own = ids[1:] if len(ids) > 1 and ids[0] == start else ids
        kept = own if max_length is None else own[:max_length]
        counts.cut_tokens += len(own) - len(kept)
        found.append(np.concatenate([[start], kept]).astype(np.int32))
    return found


def end_id(tokenizer: Tokenizer) -> int:
    """The end token. Raises InputError if the tokenizer has none."""
    if tokenizer.eos_id is None:
        raise InputError("The tokenizer has no end-of-text token, so translation could not stop.")
    return tokenizer.eos_id
