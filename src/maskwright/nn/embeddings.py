"""Embeddings of the input: by token, by position, by segment, by character."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import NORMS, Linear, dropout
from .positions import sinusoidal_positions

# -- Character-level word embeddings: convolution filters with max pooling per word (Kim et al. 2016, section 2.2)
#
# There are no unknown words, and words with similar spelling have similar embeddings.


@dataclass(frozen=True)
class Words:
    """The words in a pack of characters.

    of_token: int64 [tokens], the word of each token (a space belongs to the word before it); is_space: bool [tokens],
    spaces that are not a word; lengths: number of words in each sequence.
    """

    of_token: Tensor
    is_space: Tensor
    lengths: list[int]


def words_of(input_ids: Tensor, lengths: list[int], space_id: int) -> Words:
    """Finds word boundaries. input_ids: int64 [tokens], sequences of `lengths`.

    Ids above `space_id` are characters, and consecutive characters form a word; spaces separate words; ids below it
    (special tokens, unknown characters) are words by themselves. A sequence always begins with a word.
    """
    is_character, is_space = input_ids > space_id, input_ids == space_id
    begins = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)  # of a sequence
    counts = torch.tensor(lengths, device=input_ids.device)
    begins[(counts.cumsum(0) - counts)[counts > 0]] = True
    after_character = torch.cat([begins[:1] & False, is_character[:-1]])
    starts = begins | (is_character & ~after_character) | (~is_character & ~is_space)  # [tokens]
    of_token = starts.long().cumsum(0) - 1
    own = [int(part.sum()) for part in starts.split(lengths)]
    return Words(of_token, is_space & ~begins, own)


class CharacterWords(nn.Module):
    """Word embeddings from characters: filters, max pooling, and a highway layer (Srivastava et al. 2015).

    character_size: size of a character embedding; hidden_size: size of a word embedding and total number of filters;
    width: filters cover 1 to `width` neighboring characters.
    """

    def __init__(self, character_size: int, hidden_size: int, width: int) -> None:
        super().__init__()
        per_width = hidden_size // width
        sizes = [per_width] * (width - 1) + [hidden_size - per_width * (width - 1)]
        self.filters = nn.ModuleList(Linear(character_size * (seen + 1), size) for seen, size in enumerate(sizes))
        self.gate, self.change = Linear(hidden_size, hidden_size), Linear(hidden_size, hidden_size)

    def forward(self, characters: Tensor, words: Words) -> Tensor:
        """characters: float [tokens, character_size]. Returns float [words, hidden_size]."""
        windows, shifted = [], characters
        inside = torch.ones_like(words.of_token, dtype=torch.bool)
        for step in range(len(self.filters)):
            if step:  # the characters `step` positions later, if they are in the same word
                shifted = F.pad(characters[step:], (0, 0, 0, min(step, len(characters))))
                same = torch.zeros_like(inside)
                same[:-step] = (words.of_token[:-step] == words.of_token[step:]) & ~words.is_space[step:]
                inside = same
            windows.append(shifted * inside[:, None])
        answers = [part(torch.cat(windows[: seen + 1], dim=1)) for seen, part in enumerate(self.filters)]
        answer = torch.cat(answers, dim=1)[~words.is_space]  # [characters, hidden]
        owner = words.of_token[~words.is_space][:, None].expand_as(answer)
        blank = answer.new_zeros(sum(words.lengths), answer.shape[1])
        vectors = torch.tanh(blank.scatter_reduce(0, owner, answer, "amax", include_self=False))  # [words, hidden]
        gate = torch.sigmoid(self.gate(vectors))
        return gate * torch.relu(self.change(vectors)) + (1 - gate) * vectors


# -- Input embeddings: token + position + segment embeddings, normalized (Devlin et al. 2018, figure 2) --------------


class Table(nn.Module):
    """Embedding table. weight: [num_rows, size]; row `padding_id` gets no gradient from look-ups.

    sparse_gradient: compute gradients only for rows that were looked up (train/optimizer.py); spread: factor on the
    standard deviation of the initialization.
    """

    spread: float = 1.0

    def __init__(self, num_rows: int, size: int, padding_id: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_rows, size))
        self.padding_id = padding_id
        self.sparse_gradient = False

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 [tokens]. Returns float [tokens, size]."""
        return F.embedding(ids, self.weight, self.padding_id, sparse=self.sparse_gradient)

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        return f"{self.weight.shape[0]} x {self.weight.shape[1]}"


MASKED_IN_TRAINING = 0.15 * 0.8  # fraction of mask tokens in the texts that ESM was trained on


def token_dropout(is_mask: Tensor, fraction: Tensor, dtype: torch.dtype) -> Tensor:
    """Factors on token embeddings: 0 for mask tokens; the others keep the mean size that they had in training (ESM).

    is_mask: bool [...]; fraction: float [...] or broadcast to it, of mask tokens in the text. Returns `dtype` [..., 1].
    """
    factors = (1 - MASKED_IN_TRAINING) / (1 - fraction).to(dtype)
    return (factors * ~is_mask).nan_to_num(0.0).unsqueeze(-1)


def packed_token_dropout(input_ids: Tensor, lengths: list[int], mask_id: int, dtype: torch.dtype) -> Tensor:
    """The same for a pack. input_ids: int64 [tokens], sequences of `lengths`. Returns `dtype` [tokens, 1]."""
    is_mask = input_ids == mask_id
    fractions = [part.float().mean().expand(len(part)) for part in is_mask.split(lengths)]
    return token_dropout(is_mask, torch.cat(fractions), dtype)


class Embeddings(nn.Module):
    """Sum of token, position and segment embeddings, followed by layer norm (optional) and dropout.

    Args:
        position_offset: Row of position 0; the row before it is used for padding tokens (RoBERTa).
        embedding_size: Size of the tables and the norm, projected to hidden_size afterwards (Lan et al. 2020, section
            3.1); None for hidden_size without a projection.
        positions: "learned", "fixed" (sinusoids; "halves" has all sines first), or "none".
        project_first: Project the sum before the norm instead, without a bias.
        norm: Whether to normalize the sum, by a norm of NORMS.
        dropout_first: Apply dropout before the norm.
        scale: Multiply token embeddings by the square root of their size.
        type_vocab_size: Number of segments; 0 for no segment embeddings.
        task_type_vocab_size: Rows of a table of training tasks, of which row 0 is added to every token; 0 for none.
    """

    fixed_positions: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        max_position_embeddings: int,
        type_vocab_size: int,
        layer_norm_eps: float,
        hidden_dropout: float,
        pad_token_id: int | None,
        position_offset: int = 0,
        embedding_size: int | None = None,
        positions: str = "learned",
        norm_bias: bool = True,
        norm: bool = True,
        norm_kind: str = "layer",
        dropout_first: bool = False,
        scale: bool = False,
        project_first: bool = False,
        task_type_vocab_size: int = 0,
    ) -> None:
        super().__init__()
        size = embedding_size or hidden_size
        padding_position = position_offset - 1 if position_offset else None
        self.word = Table(vocab_size, size, pad_token_id)
        rows = max_position_embeddings + position_offset
        self.position = Table(rows, size, padding_position) if positions == "learned" else None
        is_fixed, in_halves = positions in ("fixed", "halves"), positions == "halves"
        fixed = sinusoidal_positions(rows, size, in_halves) if is_fixed else None
        self.register_buffer("fixed_positions", fixed, persistent=False)
        self.token_type = Table(type_vocab_size, size) if type_vocab_size else None
        self.task_type = Table(task_type_vocab_size, size) if task_type_vocab_size else None
        self.norm = (
            NORMS[norm_kind](hidden_size if project_first else size, layer_norm_eps, norm_bias) if norm else None
        )
        self.project = Linear(size, hidden_size, not project_first) if embedding_size else None
        self.project_first = project_first
        self.position_offset = position_offset
        self.hidden_dropout = hidden_dropout
        self.dropout_first = dropout_first
        self.scale = math.sqrt(size) if scale else None

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        token_type_ids: Tensor | None,
        dtype: torch.dtype,
        factors: Tensor | None = None,
    ) -> Tensor:
        """input_ids, position_ids, token_type_ids: int64 [tokens]; token_type_ids default to 0; factors: of the token
        embeddings, [tokens, 1].

        position_ids count from 0 in every model; -1 is the position of padding tokens if positions have an offset.
        The sum and its norm keep the dtype of the weights; the result is `dtype` [tokens, hidden].
        """
        total = self.word(input_ids)  # [tokens, size]
        if factors is not None:
            total = total * factors
        if self.scale is not None:
            total = total * self.scale
        if self.position is not None:
            total = total + self.position(position_ids + self.position_offset)
        elif self.fixed_positions is not None:
            total = total + self.fixed_positions[position_ids]
        if self.token_type is not None:
            is_single = token_type_ids is None or self.token_type.weight.shape[0] == 1
            total = total + (self.token_type.weight[0] if is_single else self.token_type(token_type_ids))
        if self.task_type is not None:
            total = total + self.task_type.weight[0]
        before, after = (self.hidden_dropout, 0.0) if self.dropout_first else (0.0, self.hidden_dropout)
        if self.project is not None and self.project_first:
            total = self.project(total.to(dtype))
        total = dropout(total, before, self.training)
        total = total if self.norm is None else self.norm(total)
        hidden = dropout(total.to(dtype), after, self.training)
        return hidden if self.project is None or self.project_first else self.project(hidden)  # [tokens, hidden]
