"""Incremental decoding steps with a model's modules or its engine, and helpers of the decoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch
from ...nn.attention import Executor, Run
from ...nn.cross import CrossAttentionCache
from ..decoding_steps import DecodingSteps
from ..encoder_decoder import EncoderDecoder
from ..model import Model


class ModuleSteps:
    """Decoding steps with the modules of the model."""

    def __init__(self, model: Model) -> None:
        self.model, self.dtype = model, model.compute_dtype

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """float [tokens, hidden]."""
        return self.model.encoder.advance(input_ids, position_ids, runs, attending, self.dtype)

    def grow(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """float [rows, hidden]."""
        assert isinstance(self.model, EncoderDecoder)
        return self.model.decoder.grow(tokens, positions, attending, memory, self.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [rows, vocab]."""
        return self.model.mlm_logits(hidden).float()


def steps_of(model: Model, num_rows: int) -> DecodingSteps:
    """Returns the decoding steps of the model's engine if it has one, else of its modules. num_rows: parallel rows.

    A single row uses a different weight layout than several.
    """
    made = None if model.engine is None or model.training else model.engine.steps(model, num_rows)
    return ModuleSteps(model) if made is None else made


def start_token(model: EncoderDecoder) -> int:
    """The first token of every target. Raises InputError if the configuration has none."""
    start = model.config.decoder_start_token_id
    if start is None:
        raise InputError("The model's config.json has no decoder_start_token_id, which generation needs.")
    return start


def check_max_new_tokens(model: EncoderDecoder, max_new_tokens: int) -> None:
    """Raises InputError if the model cannot generate `max_new_tokens` tokens."""
    most = model.config.max_position_embeddings
    if max_new_tokens > most:
        raise InputError(
            f"{max_new_tokens:,} new tokens are more than this model's maximum of {most:,}: request fewer."
        )


class TargetDecoder:
    """What the incremental decoders of encoder-decoders share.

    source: source texts, one per row; max_new_tokens: maximum number of steps; use_cache: False decodes the whole row
    at each step, which is slow and gives the same results. Raises InputError for a model without a start token, and for
    more tokens than it has positions.
    """

    memory: Tensor  # float [source tokens, hidden], encoder outputs of `source`

    def __init__(self, model: EncoderDecoder, source: Batch, max_new_tokens: int, *, use_cache: bool = True) -> None:
        check_max_new_tokens(model, max_new_tokens)
        self.model, self.max_new_tokens, self.use_cache = model, max_new_tokens, use_cache
        self.device = model.word_embeddings.device
        self.start_id = start_token(model)
        self.source = source.to(self.device)
        self.owner = torch.arange(len(source))  # source index of each row
        self.written = torch.zeros(len(source), 0, dtype=torch.int64)  # [rows, tokens]

    def decode_written(self) -> Tensor:
        """Decodes the written rows without a cache: their last vectors, float [rows, hidden]."""
        memory, lengths = self.memory, self.source.lengths
        target = Batch.from_sequences([row.numpy() for row in self.written]).to(memory.device)
        parts, ids = memory.split(lengths), self.source.input_ids.split(lengths)
        sources = Batch.from_sequences([ids[row].cpu().numpy() for row in self.owner.tolist()]).to(memory.device)
        beside = torch.cat([parts[row] for row in self.owner.tolist()])
        return self.model.decode(target, beside, sources).hidden[target.last_tokens]


def cache_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype of cached keys and values. On a CPU it is float32 for half precision: attention of a single query takes
    four times as long in bfloat16.
    """
    return torch.float32 if device.type == "cpu" and dtype in (torch.bfloat16, torch.float16) else dtype
