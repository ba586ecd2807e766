"""Disentangled attention (He et al. 2021, section 3.1), and the convolution of DeBERTa 2 (table 13).

A score has a term of the two tokens, one of the query and the key's relative position (content to position, "c2p"), and
one of the key and the query's relative position ("p2c"). All layers share one table of position vectors, of which each
makes its own keys and queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import SelfAttention
from .layers import ACTIVATIONS, LayerNorm, Linear, dropout
from .positions import distances_to_keys, pick


def position_rows(max_distance: int, num_buckets: int, reach: int) -> Tensor:
    """The row of the table of each distance (key - query) from -reach to reach: int64 [2 * reach + 1].

    Greater distances than max_distance share a row. num_buckets: of each direction; the first half is one per distance,
    the others grow logarithmically up to max_distance; 0 for one per distance.
    """
    away, span = torch.arange(reach, -reach - 1, -1), num_buckets or max_distance
    if num_buckets:
        exact = num_buckets // 2
        far = away.abs().clamp(min=exact)
        # In steps of float32, as in the published code: its rounding decides the bucket at some distances.
        steps = torch.log(far / exact) / torch.log(torch.tensor((max_distance - 1) / exact)) * (exact - 1)
        away = torch.where(far <= exact, away, (steps.ceil() + exact).long() * away.sign())
    return (away + span).clamp(0, 2 * span - 1)


class PositionVectors(nn.Module):
    """The table of position vectors, shared by all layers. weight: [2 * span, hidden], span as in `position_rows`.

    reach: the greatest distance in a text; norm: of the vectors, or None.
    """

    rows: Tensor

    def __init__(self, hidden_size: int, max_distance: int, num_buckets: int, reach: int, norm: LayerNorm | None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * (num_buckets or max_distance), hidden_size))
        self.norm = norm
        self.register_buffer("rows", position_rows(max_distance, num_buckets, reach), persistent=False)

    def forward(self, dtype: torch.dtype) -> Tensor:
        """The vectors: float [2 * span, hidden]."""
        return (self.weight if self.norm is None else self.norm(self.weight)).to(dtype)


class PositionProjections(nn.Module):
    """A layer's projections of the position vectors; where they are shared, those of its tokens.

    kinds: of the terms, "c2p" and "p2c".
    """

    def __init__(self, hidden_size: int, kinds: tuple[str, ...], *, shared: bool, key_bias: bool, dropout: float):
        super().__init__()
        self.kinds, self.dropout = kinds, dropout
        self.key = Linear(hidden_size, hidden_size, key_bias) if "c2p" in kinds and not shared else None
        self.query = Linear(hidden_size, hidden_size) if "p2c" in kinds and not shared else None

    def terms(self, vectors: Tensor, rows: Tensor, attention: SelfAttention) -> DisentangledTerms:
        """The layer's terms. vectors: float [2 * span, hidden], rows: of `PositionVectors`; attention: of the layer."""
        vectors = dropout(vectors, self.dropout, self.training)
        if self.key is None and self.query is None:
            query, key, _ = attention.qkv.forward(vectors).chunk(3, dim=-1)  # hooks are for tokens
        else:
            query, key = (vectors if part is None else part(vectors) for part in (self.query, self.key))
        heads = attention.num_heads
        scale = attention.query_scale * (vectors.shape[-1] // heads) ** -0.5
        keys = key.unflatten(-1, (heads, -1)).transpose(0, 1) if "c2p" in self.kinds else None
        queries = query.unflatten(-1, (heads, -1)).transpose(0, 1) * scale if "p2c" in self.kinds else None
        return DisentangledTerms(keys, queries, rows)


@dataclass(frozen=True, eq=False)
class DisentangledTerms:
    """`RelativePositions` of one layer. keys, queries: float [heads, 2 * span, head_dim] of the positions, queries
    scaled, or None; rows: of `position_rows`.
    """

    keys: Tensor | None
    queries: Tensor | None
    rows: Tensor

    def score_terms(self, query: Tensor, key: Tensor, scale: float, distances: Tensor | None, heads: slice) -> Tensor:
        """q . k_position + k . q_position: [count, heads, ..., queries, keys]; see RelativePositions."""
        is_line, length = distances is None, query.shape[-2]
        index = self._rows(torch.arange(1 - length, length, device=query.device) if distances is None else distances)
        terms = []
        if self.keys is not None:
            terms.append(_products(query, self.keys[heads], index, is_line))
        if self.queries is not None:
            others = index.flip(0) if is_line else index.mT  # distances from the key to the query
            terms.append(_products(key, self.queries[heads], others, is_line).mT)
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def context_terms(self, weights: Tensor, distances: Tensor | None) -> Tensor | None:
        """None: positions change weights [..., queries, keys], not values."""
        return None

    def _rows(self, distances: Tensor) -> Tensor:
        reach = len(self.rows) // 2
        return self.rows[distances.clamp(-reach, reach) + reach]


def _products(tokens: Tensor, positions: Tensor, rows: Tensor, is_line: bool) -> Tensor:
    """tokens: float [count, heads, ..., tokens, head_dim]; positions: [heads, 2 * span, head_dim]; rows: of the 2 *
    tokens - 1 distances of contiguous tokens if is_line, else of each pair. Returns [..., tokens, others].
    """
    positions = positions.view(len(positions), *(1,) * (tokens.ndim - 4), *positions.shape[1:])
    if is_line:
        return distances_to_keys(tokens @ positions.index_select(-2, rows).mT)
    return pick(tokens @ positions.mT, rows)


class Convolution(nn.Module):
    """norm(y + act(conv(x))), of the embeddings x and the output y of the first layer.

    width: odd number of neighboring tokens. weight: [hidden, hidden / groups, width]; bias: [hidden].
    """

    def __init__(self, norm: LayerNorm, width: int, groups: int, act: str, dropout: float):
        super().__init__()
        size = len(norm.weight)
        self.weight = nn.Parameter(torch.empty(size, size // groups, width))
        self.bias = nn.Parameter(torch.empty(size))
        self.norm, self.groups, self.dropout, self.act = norm, groups, dropout, ACTIVATIONS[act]
        self.margin = width // 2

    def forward(self, x: Tensor, y: Tensor, lengths: list[int], places: Tensor | None) -> Tensor:
        """x, y: float [tokens, hidden], a pack of `lengths`, like the result; places: see `columns_of`."""
        columns = columns_of(lengths, places, self.margin, x.device)
        line = x.new_zeros(int(columns[-1]) + 1 if len(columns) else 1, x.shape[-1]).index_copy(0, columns, x)
        return self.add(self.convolve(line)[columns], y)

    def convolve(self, x: Tensor) -> Tensor:
        """conv(x): float [..., tokens, hidden], like x."""
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.conv1d(x.mT, weight, bias, padding=self.margin, groups=self.groups).mT

    def add(self, convolved: Tensor, y: Tensor) -> Tensor:
        """All float [..., tokens, hidden]."""
        result: Tensor = self.norm(y + self.act(dropout(convolved, self.dropout, self.training)))
        return result


def columns_of(lengths: list[int], places: Tensor | None, margin: int, device: torch.device) -> Tensor:
    """The column of each token on a line with `margin` empty columns between sequences: int64 [tokens].

    places: int64 [tokens], columns in a row, None for contiguous tokens.
    """
    counts = torch.tensor([length for length in lengths if length], dtype=torch.int64, device=device)
    ends = counts.cumsum(0)
    if places is None:
        places = torch.arange(sum(lengths), device=device) - (ends - counts).repeat_interleave(counts)
    extents = places[ends - 1] + 1 + margin
    return places + (extents.cumsum(0) - extents).repeat_interleave(counts)
