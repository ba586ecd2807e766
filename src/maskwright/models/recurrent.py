"""The recurrent encoder: embeddings and recurrent layers (nn/recurrent.py).

It has the interface of the Transformer, so every head, task, objective and command supports it. Attention "causal" is a
unidirectional language model (Mikolov et al. 2010), "full" a bidirectional network; with separate_directions the
forward and backward stacks are independent (Peters et al. 2018, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.characters import CharacterWords, words_of
from ..nn.dropout import dropout
from ..nn.embeddings import Embeddings
from ..nn.packed_recurrence import PackedRecurrence, pack_whole_texts
from ..nn.recurrent import CellName, RecurrentStack, States
from .config import ModelConfig
from .transformer import Encoded


class RecurrentEncoder(nn.Module):
    """Embeddings and recurrent layers of a configuration with `recurrent` set.

    Token vectors have hidden_size before and after every layer; each direction of a bidirectional network has half of
    it. hidden_dropout applies to the embeddings and to the output of each layer. With character_width the layers
    process words, and every character gets the vector of its word.
    """

    pooler = None  # heads use the last token, or the mean
    relative = None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.recomputes = False  # activation checkpointing is not supported by its kernels
        reads_characters = config.character_width > 0
        self.embeddings = Embeddings(
            config.vocab_size,
            config.table_size if reads_characters else config.hidden_size,
            max_position_embeddings=config.max_position_embeddings,
            type_vocab_size=config.type_vocab_size,
            layer_norm_eps=config.layer_norm_eps,
            hidden_dropout=config.hidden_dropout,
            pad_token_id=config.pad_token_id,
            embedding_size=None if reads_characters else config.embedding_size,
            positions="none",
            norm_bias=config.norm_bias,
            norm=config.embedding_norm,
            dropout_first=config.embedding_dropout == "before",
            scale=config.scale_embeddings,
        )
        self.words = (
            CharacterWords(config.table_size, config.hidden_size, config.character_width) if reads_characters else None
        )
        self.stack = RecurrentStack(
            cast("CellName", config.recurrent),
            config.hidden_size,
            config.direction_size,
            config.num_hidden_layers,
            reads="left" if config.pools_last_token else "apart" if config.separate_directions else "both",
            dropout_rate=config.hidden_dropout,
            residual=config.recurrent_residual,
        )

    def forward(
        self,
        batch: Batch,
        dtype: torch.dtype,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
        row_length: int | None = None,
        states: Sequence[States] | None = None,
        carries: bool = False,
    ) -> Encoded:
        """Encodes a pack: `.hidden` float [tokens, hidden] in `dtype`; products run in the dtype of the weights.

        states: `.states` of the previous call, None for zeros; carries: whether to return `.states`, which is slower
        for texts of different lengths. Raises InputError for `attentions`, which do not exist.
        """
        if attentions:
            raise InputError("A recurrent network has no attention weights.")
        hidden = self.embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids, dtype)
        lengths, owner = batch.lengths, None
        if self.words is not None:
            found = words_of(batch.input_ids, lengths, self.config.space_token_id)
            hidden, lengths, owner = self.words(hidden, found), found.lengths, found.of_token
        how = PackedRecurrence if carries else partial(pack_whole_texts, cell=cast("str", self.config.recurrent))
        read = self.stack(hidden, how(lengths, hidden.device), states)
        last = dropout(read.last, self.config.hidden_dropout, self.training)
        every = (hidden, *read.layers[:-1], last) if hidden_states else None
        if owner is not None:  # every character has the vector of its word
            last, every = last[owner], None if every is None else tuple(one[owner] for one in every)
        return Encoded(last, every, states=tuple(read.states) if carries else None)

    def pool(self, first: Tensor) -> Tensor:
        """Raises InputError: there is no pooler. first: [sequences, hidden]."""
        raise InputError("A recurrent network has no pooler: its heads use the last token, or the mean.")
