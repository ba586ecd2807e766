"""Linear-chain conditional random field: tags are predicted as a sequence (Lafferty et al. 2001).

score(tags) = start[y1] + sum emissions[t, yt] + sum transitions[yt-1, yt] + end[yn]; p(tags) = exp(score) / Z. The
forward algorithm computes Z over all sequences, the Viterbi algorithm the best one (Lample et al. 2016, equations 1 to
3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

Reduce = Callable[[Tensor], Tensor]  # over the previous tags: [chains, labels, labels] to [chains, labels]


class LinearChainCrf(nn.Module):
    """Transition scores between tags, and scores of the first and last tag. num_labels: number of tags."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))  # [from, to]
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    @torch.no_grad()
    def init_from_counts(self, tags: Tensor, lengths: Sequence[int]) -> None:
        """Initializes the scores with pointwise mutual information: log p(to | from) - log p(to).

        tags: int64 [words], concatenated chains; lengths: words of each chain. Counts have add-one smoothing. Added to
        log p(tag | word), the output of a token classifier, this is the score of the hidden Markov model of these tags.
        """
        size = len(self.start)
        counts = torch.ones(size + 1, size + 1, dtype=torch.float64)  # [from, to]; the last is outside the chain
        outside = torch.tensor([size])
        chains = [chain for chain in tags.cpu().split(list(lengths)) if len(chain)]
        path = torch.cat([outside, *(part for chain in chains for part in (chain, outside))])
        counts.index_put_((path[:-1], path[1:]), torch.ones(len(path) - 1, dtype=torch.float64), accumulate=True)
        probability = counts.sum(dim=0) / counts.sum()
        scores = (counts / counts.sum(dim=1, keepdim=True) / probability).log()
        self.transitions.copy_(scores[:size, :size])
        self.start.copy_(scores[size, :size])
        self.end.copy_(scores[:size, size])

    def losses(
        self,
        emissions: Tensor,
        tags: Tensor,
        lengths: Sequence[int],
        begins: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> Tensor:
        """-log p(tags) of each chain: float [chains], in float32 or better.

        emissions: float [words, labels], concatenated chains; tags: int64 [words]; lengths: words of each chain, at
        least one; begins, ends: bool [chains], False if a chain is only a part of a longer one, so that `start` or
        `end` does not apply (None: all chains are complete).
        """
        chains = self._padded(emissions, lengths, begins, ends)
        last = self._forward(chains, lengths, lambda scores: scores.logsumexp(dim=1))[-1]
        total = last.logsumexp(dim=1)  # [chains]
        owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(tags.device)
        place = torch.cat([torch.arange(length) for length in lengths]).to(tags.device)
        single = chains[owner, place, tags]  # [words]
        follows = place[1:] > 0
        pairs = self.transitions.to(chains.dtype)[tags[:-1][follows], tags[1:][follows]]
        score = single.new_zeros(len(lengths)).index_add(0, owner, single).index_add(0, owner[1:][follows], pairs)
        return total - score

    def best_scores(self, emissions: Tensor, lengths: Sequence[int]) -> Tensor:
        """The score of the best tag sequence through each tag: float [words, labels], in float32 or better.

        emissions: float [words, labels], concatenated chains; lengths: words of each chain. The highest-scoring tags
        are the Viterbi sequence; the gap to another tag is what it costs the whole sequence.
        """
        kept = [length for length in lengths if length]
        if not kept:
            return _wide(emissions)
        chains = self._padded(emissions, kept, None, None)
        there = self._forward(chains, kept, lambda scores: scores.amax(dim=1), every=True)
        # The backward pass is the forward pass over the reversed chains, with transposed transitions.
        turned = pad_sequence([chain[:length].flip(0) for chain, length in zip(chains, kept, strict=True)], True)
        back = self._forward(turned, kept, lambda scores: scores.amax(dim=1), every=True, is_reversed=True)
        forward, backward = torch.stack(there, dim=1), torch.stack(back, dim=1)  # [chains, longest, labels]
        parts = [
            forward[number, :length] + backward[number, :length].flip(0) - chains[number, :length]
            for number, length in enumerate(kept)
        ]
        return torch.cat(parts)  # [words, labels]

    def _padded(self, emissions: Tensor, lengths: Sequence[int], begins: Tensor | None, ends: Tensor | None) -> Tensor:
        """Emission scores, including `start` and `end`: float [chains, longest, labels]."""
        chains = pad_sequence(list(_wide(emissions).split(list(lengths))), batch_first=True)
        place = torch.zeros_like(chains[..., 0])
        at_start, at_end = place.clone(), place
        at_start[:, 0] = 1.0 if begins is None else begins.to(chains.dtype)
        rows = torch.arange(len(lengths), device=chains.device)
        last = torch.tensor(lengths, device=chains.device) - 1
        at_end[rows, last] = 1.0 if ends is None else ends.to(chains.dtype)
        return (
            chains + at_start[..., None] * self.start.to(chains.dtype) + at_end[..., None] * self.end.to(chains.dtype)
        )

    def _forward(
        self, chains: Tensor, lengths: Sequence[int], reduce: Reduce, *, every: bool = False, is_reversed: bool = False
    ) -> list[Tensor]:
        """Scores of all paths to each tag, word by word: float [chains, labels] each; only the last unless `every`.

        A chain that has ended keeps the scores of its last word.
        """
        transitions = self.transitions.to(chains.dtype)
        transitions = transitions.t() if is_reversed else transitions
        length = torch.tensor(lengths, device=chains.device).unsqueeze(1)  # [chains, 1]
        ways = chains[:, 0]
        found = [ways]
        for place in range(1, chains.shape[1]):
            moved = reduce(ways.unsqueeze(2) + transitions) + chains[:, place]
            ways = torch.where(place < length, moved, ways)
            found = [*found, ways] if every else [ways]
        return found


def _wide(emissions: Tensor) -> Tensor:
    """Converts emissions of any shape [...] to float32 or better: sums over long chains need it."""
    return emissions.float() if emissions.dtype in (torch.bfloat16, torch.float16) else emissions
