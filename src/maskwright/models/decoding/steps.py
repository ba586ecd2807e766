"""What reads one more token of each row: the modules of a model, or an engine's copies of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch
from ...nn.attention import Executor
from ...nn.cross import CrossMemory
from ...nn.runs import Run
from ..encoder_decoder import EncoderDecoder
from ..model import Model


class Steps(Protocol):
    """Networks that a decoder goes through, with the weights as they were when it was made."""

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """Tokens of a left-to-right model: float [tokens, hidden]; see `models.transformer.Transformer.advance`."""

    def grow(self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossMemory) -> Tensor:
        """One more token of each row of a text that is written: float [rows, hidden]; see `Decoder.grow`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Of the tokens that follow: float32 [rows, vocab]. hidden: [rows, hidden]."""


class ModuleSteps:
    """By the modules of the model."""

    def __init__(self, model: Model) -> None:
        self.model, self.dtype = model, model.compute_dtype

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """float [tokens, hidden]."""
        return self.model.encoder.advance(input_ids, position_ids, runs, attending, self.dtype)

    def grow(self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossMemory) -> Tensor:
        """float [rows, hidden]."""
        assert isinstance(self.model, EncoderDecoder)
        return self.model.decoder.grow(tokens, positions, attending, memory, self.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocab]."""
        return self.model.mlm_logits(hidden).float()


def steps_of(model: Model, num_rows: int) -> Steps:
    """What serves a model here: its engine, where it has one, else its modules. num_rows: that will grow side by side.

    One row asks for other copies of the weights than several.
    """
    made = None if model.engine is None or model.training else model.engine.steps(model, num_rows)
    return ModuleSteps(model) if made is None else made


def start_token(model: EncoderDecoder) -> int:
    """What stands before every text that the model writes. Raises InputError where it names none."""
    start = model.config.decoder_start_token_id
    if start is None:
        raise InputError("The model's config.json names no decoder_start_token_id, so no text can begin.")
    return start


def check_room(model: EncoderDecoder, max_new_tokens: int) -> None:
    """Raise InputError for more tokens than a model can write."""
    most = model.config.max_position_embeddings
    if max_new_tokens > most:
        raise InputError(
            f"{max_new_tokens:,} new tokens are more than the {most:,} that this model can write: ask for fewer."
        )


def read_anew(model: EncoderDecoder, written: Tensor, owner: Tensor, memory: Tensor, source: Batch) -> Tensor:
    """The last vectors of rows that are read from their beginnings: float [rows, hidden].

    written: int64 [rows, tokens]; owner: int64 [rows], the text of `source` that each row is written for; memory: float
    [source tokens, hidden], what the encoder made of `source`.
    """
    target = Batch.from_sequences([row.numpy() for row in written]).to(memory.device)
    parts, ids = memory.split(source.lengths), source.input_ids.split(source.lengths)
    sources = Batch.from_sequences([ids[row].cpu().numpy() for row in owner.tolist()]).to(memory.device)
    beside = torch.cat([parts[row] for row in owner.tolist()])
    return model.decode(target, beside, sources).hidden[target.last_tokens]


def memory_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """In what dtype keys and values are kept. On a CPU they are wider than the numbers of the network: its attention of
    one query takes four times as long in bfloat16.
    """
    return torch.float32 if device.type == "cpu" and dtype in (torch.bfloat16, torch.float16) else dtype
