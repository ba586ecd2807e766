"""The recurrent encoder: embeddings and recurrent layers (nn/recurrent.py).

It has the interface of the Transformer, so every head, task, objective and command supports it. Attention "causal" is a
unidirectional language model (Mikolov et al. 2010), "full" a bidirectional network; with separate_directions the
forward and backward stacks are independent (Peters et al. 2018, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.attention import group_of, pad, unpad
from ..nn.cross import Alignment, ScoreName, Sources, plan_pairs
from ..nn.embeddings import CharacterWords, words_of
from ..nn.layers import Linear, dropout
from ..nn.recurrent import CELLS, CellName, PackedRecurrence, RecurrentLayer, RecurrentStack, States, pack_whole_texts
from .config import ModelConfig
from .decoder import Decoded, decoder_config
from .pooling import state_of
from .transformer import Encoded, make_embeddings


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
        of_characters = {"hidden_size": config.table_size, "embedding_size": None} if reads_characters else {}
        self.embeddings = make_embeddings(config, **of_characters)
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


# -- The decoder of a recurrent encoder-decoder, initialized with the final encoder state ----------------------------
#
# With v the final encoder state (`pooling.state_of`), y the embedding of the previous token, C the encoder outputs:
#
#  s_0 = tanh(B v + b) in every layer                                    (Sutskever et al. 2014; Bahdanau et al. 2015)
#  without attention    h_t = cells(y_{t-1}),  o_t = h_t
#  with attention       h_t = cells(y_{t-1}),  A_t attention of h_t,  o_t = tanh(W [h_t; A_t])    (Luong et al. 2015)
#  with input feeding   A_t attention of s_{t-1} of the first layer, whose gates act on [s_{t-1}; A_t] and y_{t-1}
#                       (Bahdanau et al. 2015); h_t = cells([y_{t-1}; A_t]), o_t as before
#
# With input feeding, the first layer computes the attention, as in GNMT (Wu et al. 2016, section 3.1): only it runs
# step by step, and the layers above process the whole text at once.


Weights = tuple[Tensor, ...]  # per text [1, length, source length]


class DecoderState(NamedTuple):
    """State of incremental decoding: the states of each layer, and the sources, None without attention."""

    states: tuple[States, ...]
    sources: Sources | None


class RecurrentTargetDecoder(nn.Module):
    """Embeddings, unidirectional recurrent layers, and optional attention. encoder_decoder: the configuration.

    Products run in the dtype of the weights. hidden_dropout applies to embeddings, between layers, and to the output.
    """

    def __init__(self, encoder_decoder: ModelConfig) -> None:
        super().__init__()
        self.config = config = decoder_config(encoder_decoder)
        cell, size = cast("CellName", config.recurrent), config.hidden_size
        self.feeds = encoder_decoder.input_feeding
        self.both_ends = not encoder_decoder.pools_last_token  # whether the encoder is bidirectional
        self.embeddings = make_embeddings(config, embedding_size=None)
        layers, score = config.num_hidden_layers, encoder_decoder.attention_score
        self.bridges = nn.ModuleList(Linear(size, CELLS[cell].num_states * size) for _ in range(layers))
        self.first = RecurrentLayer(cell, 2 * size if self.feeds else size, size)
        self.upper = (
            RecurrentStack(
                cell, size, size, layers - 1, dropout_rate=config.hidden_dropout, residual=config.recurrent_residual
            )
            if layers > 1
            else None
        )
        self.alignment = None if score == "none" else Alignment(cast("ScoreName", score), size)
        self.readout = None if self.alignment is None else Linear(2 * size, size)

    # -- whole texts -----------------------------------------------------------------------------------------------

    def decode(
        self,
        target: Batch,
        memory: Tensor,
        source: Batch,
        dtype: torch.dtype,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
    ) -> Decoded:
        """Decodes a pack of targets with their sources, like `models.decoder.Decoder.decode`.

        memory: float [source tokens, hidden], encoder outputs of `source`. `.cross_attentions` has one layer with one
        head, or is None without attention.
        """
        memory = memory.to(self.dtype)
        words = self.embeddings(target.input_ids, target.position_ids, None, self.dtype)
        reading = pack_whole_texts(target.lengths, words.device, self.first.cell)
        states = self.begin(memory, source)
        context: Tensor | None = None
        weights: Weights = ()
        if self.feeds:
            low, context, weights = self._read_feeding(words, memory, target, source, states[0], attentions)
        else:
            low, _ = self.first(words, reading, states[0])
        layers = [low]
        if self.upper is not None:
            layers += self.upper(self._between(low), reading, states[1:]).layers
        if self.alignment is not None and not self.feeds:
            context, weights = self._look(layers[-1], memory, target, source, attentions)
        hidden = self._result(layers[-1], context).to(dtype)
        every = (words, *layers[:-1], hidden) if hidden_states else None
        return Decoded(hidden, every, None, (weights,) if attentions and self.alignment is not None else None)

    def begin(self, memory: Tensor, source: Batch) -> list[States]:
        """The initial states of each layer: float [1, texts, hidden] each. memory: float [tokens, hidden]."""
        state = state_of(memory, source, self.both_ends)  # [texts, hidden]
        number = CELLS[self.first.cell].num_states
        return [
            tuple(part.unsqueeze(0).contiguous() for part in torch.tanh(bridge(state)).chunk(number, dim=-1))
            for bridge in self.bridges
        ]

    def _look(
        self, states: Tensor, memory: Tensor, target: Batch, source: Batch, want_weights: bool
    ) -> tuple[Tensor, Weights]:
        """Attention contexts of a pack of targets, float [tokens, hidden], and weights, if wanted. states: [tokens,
        hidden].
        """
        assert self.alignment is not None
        groups = plan_pairs(tuple(target.lengths), tuple(source.lengths), 1, states.device)
        own = states.split([group.queries.tokens for group in groups])
        others = memory.split([group.keys.tokens for group in groups])
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        for queries, read, group in zip(own, others, groups, strict=True):
            padded = pad(queries, group.queries).view(group.queries.count, group.queries.length, -1)
            context, found = self.alignment(padded, self.alignment.prepare(read, group.keys))
            contexts.append(unpad(context.flatten(0, 1), group.queries))
            weights += found.unsqueeze(1) if want_weights else []
        if not want_weights:
            return torch.cat(contexts or [states]), ()
        lengths = zip(weights, target.lengths, source.lengths, strict=True)
        return torch.cat(contexts or [states]), tuple(one[:, :own, :other] for one, own, other in lengths)

    def _read_feeding(
        self, words: Tensor, memory: Tensor, target: Batch, source: Batch, states: States, want_weights: bool
    ) -> tuple[Tensor, Tensor, Weights]:
        """The first layer with input feeding: step by step over all texts, longest first, so that active texts are
        always the first rows. Returns its outputs and the contexts, float [tokens, hidden], and weights.
        """
        assert self.alignment is not None
        steps = _Steps(target.lengths, words.device)
        sources = self.alignment.prepare(memory, group_of(source.lengths, memory.device)).rows(steps.rows)
        states = tuple(state[:, steps.rows] for state in states)
        outputs, contexts, weights = [], [], []
        for inputs in words[steps.order].split(steps.sizes):  # [active rows, hidden]
            active = slice(len(inputs))
            states = tuple(state[:, active] for state in states)
            states, context, found = self._step_feeding(inputs, states, sources.rows(active))
            outputs.append(states[0][0])
            contexts.append(context)
            weights.append(found)
        spread = steps.texts(weights, source.lengths) if want_weights else ()
        return torch.cat(outputs)[steps.back], torch.cat(contexts)[steps.back], spread

    def _step_feeding(self, words: Tensor, states: States, sources: Sources) -> tuple[States, Tensor, Tensor]:
        """One token per row, float [rows, hidden]: returns the first layer's states, contexts [rows, hidden], and
        weights [rows, longest]. Rows of one source are adjacent, with equal numbers per source.
        """
        assert self.alignment is not None
        queries = states[0][0].view(len(sources.vectors), -1, words.shape[1])  # [texts, rows of each, hidden]
        context, weights = self.alignment(queries, sources)
        context = context.reshape(words.shape)
        return self.first.step(torch.cat([words, context], dim=-1), states), context, weights.flatten(0, 1)

    # -- one word of each row --------------------------------------------------------------------------------------

    def initial_state(self, memory: Tensor, source: Batch) -> DecoderState:
        """The initial state for decoding these sources. memory: float [tokens, hidden] of `source`."""
        memory = memory.to(self.dtype)
        sources = None
        if self.alignment is not None:
            sources = self.alignment.prepare(memory, group_of(source.lengths, memory.device))
        return DecoderState(tuple(self.begin(memory, source)), sources)

    def grow(self, tokens: Tensor, remembered: DecoderState, dtype: torch.dtype) -> tuple[Tensor, tuple[States, ...]]:
        """Decodes one more token of each row, int64 [rows]: float [rows, hidden], and the new states."""
        states, sources = remembered
        words = self.embeddings(tokens, torch.zeros_like(tokens), None, self.dtype)
        context: Tensor | None = None
        if self.feeds and sources is not None:
            first, context, _ = self._step_feeding(words, states[0], sources)
        else:
            first = self.first.step(words, states[0])
        top = first[0][0]
        above: list[States] = []
        if self.upper is not None:
            read = self.upper(top, PackedRecurrence([1] * len(tokens), top.device), states[1:])
            top, above = read.last, read.states
        if self.alignment is not None and sources is not None and not self.feeds:
            queries = top.view(len(sources.vectors), -1, top.shape[1])
            context = self.alignment(queries, sources)[0].reshape(top.shape)
        return self._result(top, context).to(dtype), (first, *above)

    # -- both ------------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, in which products run."""
        return self.embeddings.word.weight.dtype

    def _between(self, low: Tensor) -> Tensor:
        return dropout(low, self.config.hidden_dropout, self.training)

    def _result(self, top: Tensor, context: Tensor | None) -> Tensor:
        """The output vector o_t, float [tokens, hidden]. top, context: of the same shape."""
        if self.readout is not None and context is not None:
            top = torch.tanh(self.readout(torch.cat([top, context], dim=-1)))
        return dropout(top, self.config.hidden_dropout, self.training)


class _Steps:
    """The tokens of a pack, ordered by position in their texts.

    rows: int64 [texts], longest first; order: int64 [tokens], token index at each step; back: int64 [tokens], its
    inverse; sizes: number of active rows at each step.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        starts = np.cumsum(self.lengths) - self.lengths
        longest_first = np.argsort(-self.lengths, kind="stable")
        rank = np.argsort(longest_first, kind="stable")
        place = np.arange(self.lengths.sum()) - np.repeat(starts, self.lengths)
        order = np.lexsort((np.repeat(rank, self.lengths), place))
        self.rows = torch.from_numpy(longest_first).to(device)
        self.order = torch.from_numpy(order).to(device)
        self.back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
        self.sizes = np.bincount(place).tolist()
        self._rank = rank

    def texts(self, weights: Sequence[Tensor], others: Sequence[int]) -> Weights:
        """Converts weights per step, [active rows, longest], to those per text: [1, length, source length]."""
        return tuple(
            torch.stack([weights[step][rank] for step in range(length)])[None, :, :other]
            for rank, length, other in zip(self._rank.tolist(), self.lengths.tolist(), others, strict=True)
        )
