"""Words from their characters: filters over neighbouring characters, the largest answer of each in the word (Kim et al.
2016, section 2.2). No word is unknown, and words that are spelt alike have vectors that are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear


@dataclass(frozen=True)
class Words:
    """The words of a pack of characters.

    of_token: int64 [tokens], the word that each token stands in (a space in the one before it); is_space: bool
    [tokens], spaces that are no word; lengths: words of each sequence.
    """

    of_token: Tensor
    is_space: Tensor
    lengths: list[int]


def words_of(input_ids: Tensor, lengths: list[int], space_id: int) -> Words:
    """Where words begin: int64 [tokens] of sequences of `lengths`.

    Ids above `space_id` are characters, and neighbours among them are a word; the space stands between words; those
    below it (special tokens, unknown characters) are words by themselves. A sequence always begins with a word.
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
    """A vector of each word: filters, their largest answers, and a highway layer (Srivastava et al. 2015).

    character_size: of a character's vector; hidden_size: of a word's, so many filters in all; width: filters see 1 to
    so many neighbouring characters.
    """

    def __init__(self, character_size: int, hidden_size: int, width: int) -> None:
        super().__init__()
        share = hidden_size // width
        sizes = [share] * (width - 1) + [hidden_size - share * (width - 1)]
        self.filters = nn.ModuleList(Linear(character_size * (seen + 1), size) for seen, size in enumerate(sizes))
        self.gate, self.change = Linear(hidden_size, hidden_size), Linear(hidden_size, hidden_size)

    def forward(self, characters: Tensor, words: Words) -> Tensor:
        """characters: float [tokens, character_size]. Returns float [words, hidden_size]."""
        windows, shifted = [], characters
        inside = torch.ones_like(words.of_token, dtype=torch.bool)
        for step in range(len(self.filters)):
            if step:  # what stands `step` characters further on, where that is the same word
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
