"""Character-level word embeddings: convolution filters with max pooling per word (Kim et al. 2016, section 2.2).

There are no unknown words, and words with similar spelling have similar embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear


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
