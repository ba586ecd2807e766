"""The recurrent encoder: embeddings, then layers that read token after token (nn/recurrent.py).

It takes and gives what the Transformer does, so every head, task, objective and command works on it. Under attention
"causal" it reads from the left and is a language model (Mikolov et al. 2010); under "full" each layer reads from both
ends; with separate_directions two stacks read from the two ends and never meet (Peters et al. 2018, section 3.1).
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
from ..nn.reading import Reading, whole_texts
from ..nn.recurrent import CellName, RecurrentStack, States
from .config import ModelConfig
from .transformer import Encoded


class RecurrentEncoder(nn.Module):
    """Embeddings and recurrent layers of a configuration whose `recurrent` names a cell.

    Each token's vector is hidden_size wide, before and behind every layer; a network that reads from both ends has half
    of that for each. hidden_dropout falls on the embeddings and on the output of each layer. With character_width the
    tokens are characters, what the layers read are words, and every character has its word's vector.
    """

    pooler = None  # heads judge the last token, or the mean
    relative = None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.recomputes = False  # its kernels keep what they need
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
            reads="left" if config.judges_last else "apart" if config.separate_directions else "both",
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
        """Encode a pack: `.hidden` float [tokens, hidden] in `dtype`, though products run in that of the weights.

        states: what an earlier call left in `.states`, None to begin anew; carries: whether `.states` is wanted, for
        which texts of different lengths are read more slowly. Raises InputError for attention weights,
        which there are none of.
        """
        if attentions:
            raise InputError("A recurrent network attends to nothing: it has no attention weights to show.")
        hidden = self.embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids, dtype)
        lengths, owner = batch.lengths, None
        if self.words is not None:
            found = words_of(batch.input_ids, lengths, self.config.space_token_id)
            hidden, lengths, owner = self.words(hidden, found), found.lengths, found.of_token
        how = Reading if carries else partial(whole_texts, cell=cast("str", self.config.recurrent))
        read = self.stack(hidden, how(lengths, hidden.device), states)
        last = dropout(read.last, self.config.hidden_dropout, self.training)
        every = (hidden, *read.layers[:-1], last) if hidden_states else None
        if owner is not None:  # a character has the vector of its word
            last, every = last[owner], None if every is None else tuple(one[owner] for one in every)
        return Encoded(last, every, states=tuple(read.states) if carries else None)

    def pool(self, first: Tensor) -> Tensor:
        """There is no pooler. first: [sequences, hidden]."""
        raise InputError("A recurrent network has no pooler: its heads judge the last token, or the mean.")
