"""Positions of tokens: fixed encodings, rotary embeddings, relative positions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from .attention import CACHED_SCORES, Executor, Run, apply_causal_mask, attend
from .layers import dropout

# -- Fixed position encodings: the sinusoids of the original Transformer, and three simpler ones for comparison ------


def sinusoidal_positions(num_positions: int, size: int, in_halves: bool = False) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/size)), PE(pos, 2i+1) = its cos (Vaswani et al. 2017, section 3.5).

    Returns float32 [num_positions, size], to be added to the token embeddings (not concatenated). Computed in float64:
    at position 5,000 a float32 angle is wrong in the fourth decimal. An odd `size` ends with a sine.
    in_halves: all sines first, then all cosine values, as in the published code and Marian.
    """
    positions = torch.arange(num_positions, dtype=torch.float64)
    even = torch.arange(0, size, 2, dtype=torch.float64)
    angles = positions[:, None] / torch.pow(10000.0, even / size)  # [num_positions, ceil(size / 2)]
    table = torch.empty(num_positions, size, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : size // 2]
    if in_halves:
        table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    return table.float()


def integer_positions(num_positions: int) -> Tensor:
    """Position indices: float32 [num_positions, 1]. They grow without bound."""
    return torch.arange(num_positions, dtype=torch.float32)[:, None]


def normalized_positions(num_positions: int) -> Tensor:
    """Position indices scaled to 0 to 1: float32 [num_positions, 1]. The same position differs between text lengths."""
    return integer_positions(num_positions) / max(num_positions - 1, 1)


def binary_positions(num_positions: int) -> Tensor:
    """Position indices as binary digits, highest first: float32 [num_positions, bits].

    Each digit changes half as often as the next one, like sinusoids of different frequencies, but not smoothly.
    """
    bits = max((num_positions - 1).bit_length(), 1)
    shifts = torch.arange(bits - 1, -1, -1)
    return (torch.arange(num_positions)[:, None] >> shifts & 1).float()


# -- Rotary position embeddings (Su et al. 2021, section 3.2.2): queries and keys are rotated by their position ------
#
# Pair i of a head's dimensions is rotated by position * theta^(-2i / head_dim). The product of a rotated query and key
# depends only on the difference of their positions, and nothing is added to the token embeddings. Pair i consists of
# elements i and i + head_dim / 2 ("half-split", as in ModernBERT), or 2i and 2i + 1 ("neighbors", as in RoFormer).


class Angles(NamedTuple):
    """Rotary angles of tokens, and what they rotate.

    cosine, sine: [tokens, head_dim / 2]; neighbors: pairs are 2i and 2i + 1; values: values are rotated, too.
    """

    cosine: Tensor
    sine: Tensor
    neighbors: bool = False
    values: bool = False


def rotary_angles(
    position_ids: Tensor,
    head_dim: int,
    theta: float = 10_000.0,
    dtype: torch.dtype = torch.float32,
    in_float16: bool = False,
    scaling: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each token's angles: [tokens, head_dim / 2] each, shared by layers of the same theta.

    position_ids: int64 [tokens]; dtype: of the hidden states; in_float16: see `rotary_frequencies`; scaling: see
    `scaled_frequencies`. Angles are float64 for float64 and float32 for all other dtypes, as in published models; half
    precision is too coarse after a few hundred positions. Raises ConfigError for an odd head_dim
    or a theta that is not positive.
    """
    check(head_dim % 2 == 0, f"head_dim is {head_dim}; rotary positions need an even number of dimensions.")
    check(theta > 0, f"The base of rotary positions is {theta}; it must be above 0.")
    exact = torch.promote_types(dtype, torch.float32)
    frequencies = rotary_frequencies(head_dim, theta, exact, in_float16).to(position_ids.device)  # [head_dim / 2]
    frequencies, factor = scaled_frequencies(frequencies, theta, scaling) if scaling else (frequencies, 1.0)
    angles = position_ids.to(exact)[:, None] * frequencies  # [tokens, head_dim / 2]
    return angles.cos() * factor, angles.sin() * factor


def scaled_frequencies(frequencies: Tensor, theta: float, scaling: Mapping[str, Any]) -> tuple[Tensor, float]:
    """Rotary frequencies [head_dim / 2] for longer texts than in training, and a factor on cosine and sine.

    scaling: transformers' rope_parameters. "linear": positions divided by `factor` (Chen et al. 2023); "llama3" and
    "yarn" (Peng et al. 2023, section 3.2 and equation 22): only those that turn slowly, with a gradual transition;
    "dynamic": only for texts above max_position_embeddings, which no model accepts here.
    """
    kind, factor, share = scaling["rope_type"], scaling["factor"], torch.zeros_like(frequencies)
    if kind == "dynamic":
        return frequencies, 1.0
    if kind == "linear":
        return frequencies / factor, 1.0
    length = scaling["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = length * frequencies / (2 * math.pi)  # over a text of the original length
        share = ((turns - low) / (high - low)).clamp(0, 1)  # of the original frequency
        return frequencies * (share + (1 - share) / factor), 1.0
    size, turns = 2 * len(frequencies), (scaling.get("beta_fast") or 32, scaling.get("beta_slow") or 1)
    ends = [size * math.log(length / (turn * 2 * math.pi)) / (2 * math.log(theta)) for turn in turns]
    if scaling.get("truncate", True):
        ends = [math.floor(ends[0]), math.ceil(ends[1])]
    first, last = max(ends[0], 0), min(ends[1], size - 1)
    pairs = torch.arange(len(frequencies), dtype=frequencies.dtype, device=frequencies.device)
    share = 1 - ((pairs - first) / (last - first if last != first else 0.001)).clamp(0, 1)
    return frequencies * (share + (1 - share) / factor), _yarn_factor(scaling)


def _yarn_factor(scaling: Mapping[str, Any]) -> float:
    """YaRN's factor on cosine and sine, whose square is that on the scores."""
    given, scale, of_all = (scaling.get(name) for name in ("attention_factor", "mscale", "mscale_all_dim"))
    if given is not None:
        return float(given)
    growth = 0.1 * math.log(max(scaling["factor"], 1.0))
    return (growth * scale + 1.0) / (growth * of_all + 1.0) if scale and of_all else growth + 1.0


def rotary_frequencies(
    head_dim: int, theta: float, dtype: torch.dtype = torch.float32, in_float16: bool = False
) -> Tensor:
    """theta^(-2i / head_dim): `dtype` [head_dim / 2]. in_float16: rounded to float16 first (ESM-2)."""
    exponents = torch.arange(0, head_dim, 2, dtype=dtype) / head_dim
    frequencies = 1.0 / (theta**exponents)
    return frequencies.half().to(dtype) if in_float16 else frequencies


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, neighbors: bool = False) -> Tensor:
    """Rotates the pairs (i, i + head_dim / 2) of `x` by the given angles; neighbors: the pairs (2i, 2i + 1).

    x: float [tokens, ..., head_dim]; cosine, sine: [tokens, head_dim / 2]; or [batch, tokens, ...], with angles
    [batch or 1, tokens, head_dim / 2]. Returns the shape and dtype of `x`; the arithmetic keeps the precision of the
    angles.
    """
    shape = (*cosine.shape[:-1], *(1,) * (x.ndim - cosine.ndim), cosine.shape[-1])
    cosine, sine = cosine.view(shape), sine.view(shape)
    exact = x.to(cosine.dtype)
    first, second = (exact[..., ::2], exact[..., 1::2]) if neighbors else exact.chunk(2, dim=-1)
    pair = (first * cosine - second * sine, second * cosine + first * sine)
    turned = torch.stack(pair, dim=-1).flatten(-2) if neighbors else torch.cat(pair, dim=-1)
    return turned.to(x.dtype)


def rotate_query_key(
    qkv: Tensor, num_heads: int, cosine: Tensor, sine: Tensor, neighbors: bool = False, values: bool = False
) -> Tensor:
    """Rotates the queries and keys of all heads; values stay unchanged unless `values`.

    qkv: float [tokens, 3 * hidden], the queries, then keys, then values; the others as in `Angles`. Returns float
    [tokens, 3 * hidden].
    """
    tokens, width = qkv.shape
    parts = qkv.view(tokens, 3, num_heads, width // (3 * num_heads))
    if values:
        return rotate(parts, cosine, sine, neighbors).view(tokens, width)
    turned = rotate(parts[:, :2], cosine, sine, neighbors)  # [tokens, 2, heads, head_dim]
    return torch.cat((turned, parts[:, 2:]), dim=1).view(tokens, width)


def attend_rotary(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    angles: Angles,
    executor: Executor | None = None,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Rotates queries and keys, then attends with `executor` (None: plain attention).

    qkv: float [tokens, 3 * hidden]. Returns context [tokens, hidden] and, if wanted, the weights of each sequence.
    """
    turned = rotate_query_key(qkv, num_heads, *angles)
    return (executor or attend)(
        turned, runs, num_heads, dropout_probability=dropout_probability, want_weights=want_weights
    )


# -- Relative positions: attention depends on the distance between tokens instead of their absolute positions --------
#
# Relative position vectors (Shaw et al. 2018): the key gets a learned vector of the clipped distance (equation 4), and
# optionally the value too (equation 3). Bucketed biases (Raffel et al. 2020, section 2.1; MPNet): each head adds one
# learned number to a score. Distances are key - query, so a token to the right is positive.
#
# For contiguous tokens, everything depends on 2 * length - 1 distances, and rows of them are shifted into place without
# an index. Otherwise (gaps, or a sparse pattern) the distances are passed.


KINDS = ("key", "key_value", "key_query")


class RelativePositions(Protocol):
    """Terms that a kind of relative positions adds to attention.

    Tensors are [sequences, heads, ...]. distances: int64, broadcasts to [count, heads, ..., queries, keys]; None means
    that queries and keys are the same contiguous tokens.
    """

    def score_terms(self, query: Tensor, key: Tensor, scale: float, distances: Tensor | None, heads: slice) -> Tensor:
        """Returns the term added to the scaled scores: broadcasts to [count, heads, ..., queries, keys].

        query: float [count, heads, ..., queries, head_dim], already scaled; key: [count, heads, ..., keys, head_dim],
        unscaled; heads: the range of heads.
        """

    def context_terms(self, weights: Tensor, distances: Tensor | None) -> Tensor | None:
        """Returns the term added to the context [count, heads, ..., queries, head_dim], or None.

        weights: float [count, heads, ..., queries, keys].
        """


class RelativeVectors(nn.Module):
    """Vectors by clipped distance, shared by all heads (Shaw et al. 2018, section 3.2).

    kind: "key" adds a vector to each key; "key_value" also one to each value; "key_query" also adds the product of the
    key's vector with the key itself (Huang et al. 2020, method 4). max_distance: greater distances share a vector. key,
    value: [2 * max_distance + 1, head_dim]; row max_distance is distance 0.
    """

    def __init__(self, max_distance: int, head_dim: int, kind: str = "key") -> None:
        super().__init__()
        check(kind in KINDS, f"Unknown kind of relative positions {kind!r}. Known: {', '.join(KINDS)}.")
        check(max_distance > 0, f"max_distance is {max_distance}; it must be above 0.")
        self.key = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.value = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim)) if kind == "key_value" else None
        self.max_distance = max_distance
        self.kind = kind

    def score_terms(self, query: Tensor, key: Tensor, scale: float, distances: Tensor | None, heads: slice) -> Tensor:
        """q . a and, for "key_query", k . a: [count, heads, ..., queries, keys]; see RelativePositions."""
        table = self.key.to(query.dtype)
        if distances is None:
            rows = self._rows(table, query.shape[-2])  # [2 * length - 1, head_dim]
            terms = distances_to_keys(query @ rows.T)
            if self.kind == "key_query":
                terms = terms + distances_to_keys((key * scale) @ rows.flip(0).T).mT
            return terms
        index = self._index(distances)
        terms = pick(query @ table.T, index)
        if self.kind == "key_query":
            terms = terms + pick((key * scale) @ table.T, index.mT).mT
        return terms

    def context_terms(self, weights: Tensor, distances: Tensor | None) -> Tensor | None:
        """sum_j weight_j a_j for "key_value", else None: [count, heads, ..., queries, head_dim]."""
        if self.value is None:
            return None
        table = self.value.to(weights.dtype)
        if distances is None:
            return _keys_to_distances(weights) @ self._rows(table, weights.shape[-1])
        sums = weights.new_zeros((*weights.shape[:-1], table.shape[0]))
        return sums.scatter_add(-1, self._index(distances).expand(weights.shape), weights) @ table

    def _index(self, distances: Tensor) -> Tensor:
        """Table rows of distances of any shape [...]."""
        return distances.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def _rows(self, table: Tensor, length: int) -> Tensor:
        """[2 * length - 1, head_dim]: the vectors of distances 1 - length to length - 1."""
        return table[self._index(torch.arange(1 - length, length, device=table.device))]

    def extra_repr(self) -> str:
        """Kind and maximum distance, for repr."""
        return f"{self.kind}, up to {self.max_distance} tokens"


class RelativeBias(nn.Module):
    """One bias per head and distance bucket, added to the scaled score. weight: [num_buckets, heads].

    In T5 and MPNet all layers share one table.
    """

    buckets: Tensor

    def __init__(self, num_buckets: int, num_heads: int, max_distance: int = 128, num_rows: int | None = None) -> None:
        """num_rows: rows of the table if it has more than the buckets use; default: num_buckets."""
        super().__init__()
        check(
            num_buckets >= 4 and num_buckets % 4 == 0 and max_distance > num_buckets // 4,
            f"{num_buckets} buckets up to distance {max_distance} are not possible: use a multiple of 4, and a "
            "distance greater than a quarter of it.",
        )
        self.weight = nn.Parameter(torch.empty(num_rows or num_buckets, num_heads))
        # int64 [2 * max_distance + 1]: an exported graph looks integers up, whatever its precision.
        self.register_buffer("buckets", torch.tensor(bucket_table(num_buckets, max_distance)), persistent=False)
        self.num_buckets, self.max_distance = num_buckets, max_distance

    def score_terms(self, query: Tensor, key: Tensor, scale: float, distances: Tensor | None, heads: slice) -> Tensor:
        """The bias of each distance: [heads, length, length], or the shape of `distances` with all heads."""
        table = self.weight[: self.num_buckets, heads].to(query.dtype).T  # [heads, num_buckets]
        if distances is None:
            length = query.shape[-2]
            line = torch.arange(1 - length, length, device=query.device)
            by_distance = table[:, self._buckets(line)]
            # Row i of a sequence begins at distance -i: window length - 1 - i of the line.
            return by_distance.unfold(-1, length, 1).flip(1)  # [heads, length, length]
        buckets = self._buckets(distances)
        first = torch.arange(table.shape[0], device=query.device) * table.shape[1]  # [heads]
        index = buckets + first.view(1, -1, *(1,) * (buckets.ndim - 2))
        return F.embedding(index, table.reshape(-1, 1)).squeeze(-1)

    def context_terms(self, weights: Tensor, distances: Tensor | None) -> Tensor | None:
        """None: a bias changes weights [..., queries, keys], not values."""
        return None

    def _buckets(self, distances: Tensor) -> Tensor:
        """The bucket of each distance (key - query): int64 [...] in and out."""
        return self.buckets[distances.clamp(-self.max_distance, self.max_distance) + self.max_distance]

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        return f"{self.num_buckets} buckets up to {self.max_distance} tokens, {self.weight.shape[1]} heads"


def bucket_table(num_buckets: int, max_distance: int = 128) -> list[int]:
    """The buckets of the distances (key - query) from -max_distance to max_distance, in order; from 0.

    Half of the buckets are for keys to the right. In each half, the first half has one bucket per distance, the rest
    grows logarithmically up to `max_distance`, and the last bucket covers all greater distances.
    """
    half = num_buckets // 2
    exact = half // 2
    far = np.arange(max_distance + 1)
    # In steps of float32, as in the published code: its rounding decides the bucket at round distances.
    ratios = (far.clip(exact) / exact).astype(np.float32)
    logarithms = np.array([math.log(ratio) for ratio in ratios], dtype=np.float32)
    steps = logarithms / np.float32(math.log(max_distance / exact)) * np.float32(half - exact)
    sizes = np.where(far < exact, far, (exact + steps.astype(int)).clip(max=half - 1))
    return [*sizes[:0:-1].tolist(), 0, *(half + sizes[1:]).tolist()]


def attend_relative(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    relative: RelativePositions,
    *,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
    positions: Tensor | None = None,
    distances: Sequence[Tensor] | None = None,
    causal: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Attention with relative positions within each sequence of a pack, as explicit products.

    Args:
        qkv: float [tokens, 3 * hidden].
        runs: Cover every token once, in order.
        positions: int64 [tokens], position of each token in its sequence; None for contiguous tokens.
        distances: int64 [length, length] per sequence, queries first, if they do not follow from positions.
        causal: No token attends to a later one.

    Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence, in order.
    """
    hidden = qkv.shape[1] // 3
    scale = 1.0 / math.sqrt(hidden // num_heads)
    pieces: list[tuple[int, int]] = []  # count, length; terms: ok
    for run in runs:
        most = max(1, CACHED_SCORES // (num_heads * run.length * run.length))
        pieces += [(min(most, run.count - done), run.length) for done in range(0, run.count, most)]
    sizes = [count * length for count, length in pieces]
    places = [None] * len(pieces) if positions is None else positions.split(sizes)
    given = iter(distances or ())
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    for part, place, (count, length) in zip(qkv.split(sizes), places, pieces, strict=True):
        all_heads = part.view(count, length, 3, num_heads, hidden // num_heads).permute(2, 0, 3, 1, 4)
        query, key, value = all_heads.unbind()  # each [count, heads, length, head_dim]
        between = None if place is None else _distances(place.view(count, length))
        if distances is not None:
            between = torch.stack([next(given) for _ in range(count)]).unsqueeze(1)  # [count, 1, length, length]
        some = max(1, CACHED_SCORES // (2 * length * length))  # heads at once: terms have 2 * length - 1 distances
        found, shown = [], []
        for heads in (slice(first, first + some) for first in range(0, num_heads, some)):
            queries, keys = query[:, heads] * scale, key[:, heads]
            scores = queries @ keys.mT + relative.score_terms(queries, keys, scale, between, heads)
            if causal:
                apply_causal_mask(scores)
            own = torch.softmax(scores, dim=-1)  # [count, heads, length, length]
            dropped = dropout(own, dropout_probability)
            context = dropped @ value[:, heads]
            more = relative.context_terms(dropped, between)
            found.append(context if more is None else context + more)
            shown += [own] if want_weights else []
        weights += torch.cat(shown, dim=1).unbind() if want_weights else ()
        context = found[0] if len(found) == 1 else torch.cat(found, dim=1)
        contexts.append(context.transpose(1, 2).reshape(count * length, hidden))
    context = contexts[0] if len(contexts) == 1 else torch.cat(contexts or [qkv[:, :hidden]])
    return context, tuple(weights) if want_weights else None


def _distances(places: Tensor) -> Tensor:
    """Converts positions [count, length] to key - query: [count, 1, length, length]."""
    return (places[:, None, :] - places[:, :, None]).unsqueeze(1)


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Gathers values [..., queries, vectors] at index, which broadcasts to [..., queries, keys]."""
    return values.gather(-1, index.expand(*values.shape[:-1], index.shape[-1]))


def distances_to_keys(values: Tensor) -> Tensor:
    """Converts rows by distance, [..., length, 2 * length - 1] from 1 - length, to rows by key.

    result[i, j] = values[i, j - i + length - 1]. In the flattened rows this is index i * (2 * length - 2) + length - 1
    + j: a view with shorter rows, starting at length - 1.
    """
    length = values.shape[-2]
    if length == 1:
        return values
    flat = values.flatten(-2)[..., length - 1 : length - 1 + length * (2 * length - 2)]
    result: Tensor = flat.unflatten(-1, (length, 2 * length - 2))[..., :length]  # [..., length, length]
    return result


def _keys_to_distances(values: Tensor) -> Tensor:
    """The inverse: [..., length, length] to [..., length, 2 * length - 1], 0 where there is no such key."""
    length = values.shape[-1]
    if length == 1:
        return values
    flat = F.pad(values, (0, length - 2)).flatten(-2)  # rows of 2 * length - 2
    result: Tensor = F.pad(flat, (length - 1, 1)).unflatten(-1, (length, 2 * length - 1))
    return result
