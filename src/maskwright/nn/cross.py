"""Cross-attention from target tokens to all source tokens (Vaswani et al. 2017, section 3.2.3).

Queries come from the target text, keys and values from the source text. In a pack both texts of a pair have different
lengths, so neighboring pairs of similar length are padded to a common length inside attention only. During generation,
keys and values of the source are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import CACHED_SCORES, RUN_COST, Group, group_of, mask_scores, pad, unpad
from .layers import Linear, dropout

# -- Attention between two recurrent networks, from decoder states to encoder outputs --------------------------------
#
# With h the decoder state, C_i the encoder output of source token i, and [;] concatenation:
#
#  dot        e_i = h . C_i
#  bilinear   e_i = h . W C_i                                                    (Luong et al. 2015, equation 8)
#  mlp        e_i = w_2 . tanh(W_1 [h; C_i])                                        (Bahdanau et al. 2015, app. A.1.2)
#  additive   e_i = tanh(w_a . [h; C_i])                   a single layer: weights differ by at most a factor of e^2
#
#     a = softmax(e),  A = sum_i a_i C_i
#
# Unlike in a Transformer, the scores are not divided by the square root of the size.


ScoreName = Literal["dot", "bilinear", "mlp", "additive"]


class Sources(NamedTuple):
    """Encoded source texts as a padded batch.

    vectors: C, float [texts, longest, size]; keys: the part of the scores that depends only on C, computed once, float
    [texts, longest, ...]; is_padding: bool [texts, longest], None if all have the same length.
    """

    vectors: Tensor
    keys: Tensor
    is_padding: Tensor | None

    def rows(self, chosen: Tensor | slice) -> Sources:
        """Selects some of the texts. chosen: int64 [chosen], or a slice."""
        padding = None if self.is_padding is None else self.is_padding[chosen]
        return Sources(self.vectors[chosen], self.keys[chosen], padding)


class Alignment(nn.Module):
    """One of the four scores between vectors of `size` dimensions. Parameters are not initialized."""

    def __init__(self, score: ScoreName, size: int) -> None:
        super().__init__()
        self.score, self.size = score, size
        self.W = Linear(size, size, bias=False) if score == "bilinear" else None
        self.W_1 = Linear(2 * size, size, bias=False) if score == "mlp" else None
        self.w_2 = Linear(size, 1, bias=False) if score == "mlp" else None
        self.w_a = Linear(2 * size, 1, bias=False) if score == "additive" else None

    def prepare(self, vectors: Tensor, group: Group) -> Sources:
        """Pads encoded texts and computes their keys. vectors: float [group.tokens, size], concatenated."""
        side_by_side = pad(vectors, group).view(group.count, group.length, -1)  # [texts, longest, size]
        has_padding = group.tokens < group.count * group.length
        is_padding = group.is_padding.view(group.count, group.length) if has_padding else None
        return Sources(side_by_side, self._keys(side_by_side), is_padding)

    def forward(self, queries: Tensor, sources: Sources) -> tuple[Tensor, Tensor]:
        """queries: h, float [texts, queries, size]. Returns A, of that shape, and a, [texts, queries, longest]."""
        scores = self.scores(queries, sources.keys)  # [texts, queries, longest]
        if sources.is_padding is not None:
            scores = scores.masked_fill(sources.is_padding[:, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ sources.vectors, weights

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """e, float [texts, queries, longest]. queries: float [texts, queries, size]; keys: of `Sources`."""
        if self.W_1 is not None and self.w_2 is not None:
            own = queries @ self._half(self.W_1, 0, queries)  # [texts, queries, size]
            scores: Tensor = self.w_2(torch.tanh(own[:, :, None] + keys[:, None])).squeeze(-1)
            return scores
        if self.w_a is not None:
            return torch.tanh(queries @ self._half(self.w_a, 0, queries) + keys.mT)
        return queries @ keys.mT

    def _keys(self, vectors: Tensor) -> Tensor:
        """The part of a score that depends only on C. vectors: float [texts, longest, size]."""
        if self.W is not None:
            keys: Tensor = self.W(vectors)
            return keys
        joined = self.W_1 or self.w_a
        return vectors if joined is None else vectors @ self._half(joined, 1, vectors)

    def _half(self, joined: Linear, number: int, like: Tensor) -> Tensor:
        """The transposed columns of a [h; C] matrix that multiply h (0) or C (1): float [size, outputs]."""
        return joined.weight[:, number * self.size : (number + 1) * self.size].T.to(like.dtype)


class PairGroup(NamedTuple):
    """Neighboring pairs of texts: groups of their queries and keys."""

    queries: Group
    keys: Group


class CrossAttentionExecutor(Protocol):
    """Function that attends to the source text: `cross_attend`, or that of a cache."""

    def __call__(self, attention: CrossAttention, hidden: Tensor) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden] of the target text. Returns context of that shape, and weights."""


class CrossAttention(nn.Module):
    """Multi-head attention from a target to a source text. `out` is W_O, as in self-attention."""

    def __init__(self, hidden_size: int, num_heads: int, attention_dropout: float, bias: bool = True) -> None:
        super().__init__()
        self.query = Linear(hidden_size, hidden_size, bias)
        self.key_value = Linear(hidden_size, 2 * hidden_size, bias)
        self.out = Linear(hidden_size, hidden_size, bias)
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout

    def forward(self, hidden: Tensor, across: CrossAttentionExecutor) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden], like the result; weights [heads, length, other] per text, if wanted."""
        context, weights = across(self, hidden)
        return self.out(context), weights


def cross_attend(
    attention: CrossAttention,
    hidden: Tensor,
    *,
    memory: Tensor,
    groups: Sequence[PairGroup],
    want_weights: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Cross-attention from each target text of a pack to its source text in another pack.

    hidden: float [tokens, hidden]; memory: float [source tokens, hidden], encoder outputs in the same order; groups:
    from `plan_pairs`. Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, source length]
    per pair, in order.
    """
    query, key_value = attention.query(hidden), attention.key_value(memory)
    heads, rate = attention.num_heads, attention.attention_dropout if attention.training else 0.0
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    queries = query.split([group.queries.tokens for group in groups])
    others = key_value.split([group.keys.tokens for group in groups])
    for own, other, group in zip(queries, others, groups, strict=True):
        context, found = _attend_group(own, other, group, heads, rate)
        contexts.append(context)
        if want_weights:
            weights += _each(found, group)
    return torch.cat(contexts or [query]), tuple(weights) if want_weights else None


def _attend_group(
    query: Tensor, key_value: Tensor, group: PairGroup, num_heads: int, rate: float
) -> tuple[Tensor, Tensor]:
    """query: float [tokens, hidden]; key_value: float [other tokens, 2 * hidden]. Returns context [tokens, hidden] and
    weights [count, heads, length, other length].
    """
    queries, keys = group
    hidden = query.shape[1]
    head_dim = hidden // num_heads
    own = pad(query, queries).view(queries.count, queries.length, num_heads, head_dim).transpose(1, 2)
    others = pad(key_value, keys).view(keys.count, keys.length, 2, num_heads, head_dim).permute(2, 0, 3, 1, 4)
    key, value = others.unbind()  # each [count, heads, other length, head_dim]
    scores = (own * (1.0 / math.sqrt(head_dim))) @ key.mT  # [count, heads, length, other length]
    if keys.tokens < keys.count * keys.length:
        mask_scores(scores, keys.is_padding.view(keys.count, 1, 1, keys.length))
    weights = torch.softmax(scores, dim=-1)
    context = dropout(weights, rate) @ value
    return unpad(context.transpose(1, 2).reshape(queries.count * queries.length, hidden), queries), weights


def _each(weights: Tensor, group: PairGroup) -> list[Tensor]:
    """Splits weights [count, heads, length, other length] into those of each pair, without padding."""
    lengths = [(~part.is_padding).view(part.count, part.length).sum(dim=1).tolist() for part in group]
    return [own[:, :length, :other] for own, length, other in zip(weights, *lengths, strict=True)]


@lru_cache(maxsize=64)
def plan_pairs(
    lengths: tuple[int, ...], others: tuple[int, ...], num_heads: int, device: torch.device
) -> tuple[PairGroup, ...]:
    """Groups pairs of texts, in order, where padding costs less than an additional matrix product.

    lengths: tokens of each target text; others: of its source text. Cached, because all layers of a step share the
    plan.
    """
    parts: list[list[int]] = []
    longest, longest_other = 0, 0
    for pair, (length, other) in enumerate(zip(lengths, others, strict=True)):
        both = (max(longest, length), max(longest_other, other))
        count = len(parts[-1]) if parts else 0
        together = num_heads * both[0] * both[1] * (count + 1)
        apart = num_heads * (longest * longest_other * count + length * other)
        if count and together <= CACHED_SCORES and together - apart < RUN_COST:
            parts[-1].append(pair)
            longest, longest_other = both
        else:
            parts.append([pair])
            longest, longest_other = length, other
    with torch.inference_mode(False):  # a plan made during evaluation may be reused in training
        return tuple(
            PairGroup(*(group_of([side[pair] for pair in part], device) for side in (lengths, others)))
            for part in parts
        )


def shared_texts(texts: Tensor, held: Tensor) -> tuple[Tensor, Tensor | None]:
    """The texts to store for rows of these texts, int64 [rows], and their places among those held now, int64 [stored];
    None if nothing changes. Neighboring rows share a text if all have equally many.
    """
    stored, counts = torch.unique_consecutive(texts, return_counts=True)
    if bool((counts != counts[0]).any()):
        stored = texts
    if torch.equal(stored, held):
        return held, None
    place = {text: number for number, text in enumerate(held.tolist())}
    return stored, torch.tensor([place[text] for text in stored.tolist()])


class CrossAttentionCache:
    """Cached keys and values of source texts for incremental decoding.

    Rows that decode the same source are adjacent, and every source has the same number of rows; they share its keys and
    values. keys, values: per layer one float [texts, heads, longest, head_dim].
    """

    def __init__(
        self, parts: Sequence[tuple[CrossAttention, Tensor]], lengths: Sequence[int], dtype: torch.dtype
    ) -> None:
        """parts: per layer its attention and the encoder outputs, float [tokens, hidden]; lengths: tokens of each text;
        dtype: of the cache.
        """
        group = group_of(lengths, parts[0][1].device)
        self.keys, self.values = [], []
        for attention, memory in parts:
            both = pad(attention.key_value(memory), group)  # [texts * longest, 2 * hidden]
            both = both.view(group.count, group.length, 2, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
            self.keys.append(both[0].to(dtype).contiguous())
            self.values.append(both[1].to(dtype).contiguous())
        hidden = torch.zeros(len(group.is_padding), device=self.keys[0].device, dtype=self.keys[0].dtype)
        hidden.masked_fill_(group.is_padding, -math.inf)
        has_padding = group.tokens < len(hidden)
        self._hidden = hidden.view(group.count, 1, 1, group.length) if has_padding else None
        self._held = torch.arange(group.count)  # the texts whose keys and values are stored
        self._texts = self._held  # the source text of each row

    def attend_layer(self, attention: CrossAttention, hidden: Tensor, *, depth: int) -> tuple[Tensor, None]:
        """Attends from one token of each row. hidden: float [rows, hidden]; depth: layer index from 0."""
        return self.attend(attention.query(hidden), depth), None

    def attend(self, query: Tensor, depth: int) -> Tensor:
        """The same for a projected query. query: float [rows, hidden], like the result."""
        keys, values = self.keys[depth], self.values[depth]  # [texts, heads, longest, head_dim]
        rows, width = query.shape
        queries = query.view(len(keys), rows // len(keys), keys.shape[1], -1).transpose(1, 2).to(keys.dtype)
        context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self._hidden)
        return context.transpose(1, 2).reshape(rows, width).to(query.dtype)

    def keep(self, rows: Tensor) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat."""
        self._texts = self._texts[rows.cpu()]
        texts, places = shared_texts(self._texts, self._held)
        if places is None:
            return
        chosen = places.to(self.keys[0].device)
        self.keys = [part[chosen] for part in self.keys]
        self.values = [part[chosen] for part in self.values]
        self._hidden = None if self._hidden is None else self._hidden[chosen]
        self._held = texts
