"""The question before a text: the tokens up to the first separator, which cannot be part of an answer (BigBird)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..data.batch import Batch

FORBIDDEN = 1e6  # taken off the logits of a question's tokens


def question_lengths(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Tokens up to the first separator, itself included: int64 [batch]; 1 where there is none.

    input_ids: int64 [batch, seq].
    """
    return (input_ids == sep_token_id).int().argmax(dim=1) + 1


def in_question(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Which columns belong to the question: bool [batch, seq], as input_ids."""
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    return columns < question_lengths(input_ids, sep_token_id)[:, None]


def packed_question(batch: Batch, sep_token_id: int) -> Tensor:
    """The same for a pack: bool [tokens]."""
    parts = batch.input_ids.split(batch.lengths)
    found = [in_question(part[None], sep_token_id)[0] for part in parts if len(part)]
    return torch.cat(found) if found else batch.input_ids.bool()


def with_segments(batch: Batch, sep_token_id: int) -> Batch:
    """The pack with segment 0 for the question and 1 for the text, where it has no token types."""
    if batch.token_type_ids is not None:
        return batch
    return replace(batch, token_type_ids=(~packed_question(batch, sep_token_id)).long())


def forbid(logits: Tensor, question: Tensor, is_first: Tensor) -> Tensor:
    """Take the question out of the competition, but for the first token, which stands for "no answer".

    logits: float [..., 2]; question, is_first: bool [...].
    """
    return logits - (question & ~is_first).unsqueeze(-1).to(logits.dtype) * FORBIDDEN
