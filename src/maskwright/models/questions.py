"""Mask of the question in question answering: tokens up to the first separator cannot be in an answer (BigBird)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..data.batch import Batch

FORBIDDEN = 1e6  # subtracted from the logits of question tokens


def question_lengths(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Number of tokens up to and including the first separator: int64 [batch]; 1 without a separator.

    input_ids: int64 [batch, seq].
    """
    return (input_ids == sep_token_id).int().argmax(dim=1) + 1


def in_question(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Mask of the question columns: bool [batch, seq], like input_ids."""
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    return columns < question_lengths(input_ids, sep_token_id)[:, None]


def packed_question(batch: Batch, sep_token_id: int) -> Tensor:
    """The same for a pack: bool [tokens]."""
    parts = batch.input_ids.split(batch.lengths)
    found = [in_question(part[None], sep_token_id)[0] for part in parts if len(part)]
    return torch.cat(found) if found else batch.input_ids.bool()


def with_segments(batch: Batch, sep_token_id: int) -> Batch:
    """Sets segment 0 for the question and 1 for the text, if the pack has no token types."""
    if batch.token_type_ids is not None:
        return batch
    return replace(batch, token_type_ids=(~packed_question(batch, sep_token_id)).long())


def forbid(logits: Tensor, question: Tensor, is_first: Tensor) -> Tensor:
    """Excludes the question's tokens from answers, except the first token, which stands for "no answer".

    logits: float [..., 2]; question, is_first: bool [...].
    """
    return logits - (question & ~is_first).unsqueeze(-1).to(logits.dtype) * FORBIDDEN


def forbid_in_pack(logits: Tensor, batch: Batch, sep_token_id: int) -> Tensor:
    """The same for a pack: float [tokens, 2]."""
    is_first = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    is_first[batch.first_tokens[torch.tensor(batch.lengths) > 0]] = True
    return forbid(logits, packed_question(batch, sep_token_id), is_first)
